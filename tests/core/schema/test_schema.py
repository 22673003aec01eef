"""Schemas: what data passes, which key it has, and what readers of several generations get."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

import journal
from journal.core.entry.keys import key_bytes
from journal.core.entry.rows import pack_data, unpack_data
from journal.core.schema.field import Field
from journal.core.schema.schema import FIELDS_MAX, Schema
from journal.core.schema.types import INTEGERS, KEY_TYPES, TYPES
from journal.errors import Invalid

PAGE = Schema(
    [Field("uri", str, required=True), Field("depth", "uint8", default=0), Field("seen", datetime), Field("tags", list, default=[])],
    key="uri",
    name="pages",
)  # fmt: skip

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False) | TEXT | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": TEXT,
    "bytes": st.binary(max_size=8),
    "bool": st.booleans(),
    **{kind: st.integers(*limits) for kind, limits in INTEGERS.items()},
    "float": st.floats(allow_nan=False) | st.integers(-(1 << 63), (1 << 64) - 1),
    "date_ms": st.integers(0, (1 << 63) - 1) | st.datetimes(datetime(1970, 1, 2), timezones=st.just(UTC)),  # noqa: DTZ001
    "list": st.lists(PLAIN, max_size=3) | st.tuples(PLAIN, PLAIN),
    "map": st.dictionaries(TEXT, PLAIN, max_size=3),
    "any": PLAIN.filter(lambda value: value is not None),
}
NAMES = st.sampled_from("abcde")


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Small schemas over few names, so that two of them meet often."""
    fields = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        kind = draw(st.sampled_from(TYPES))
        required = draw(st.booleans())
        default = None if required else draw(st.none() | VALUES[kind])
        fields.append(Field(name, kind, required=required, default=default))
    able = [one.name for one in fields if one.type in KEY_TYPES and one.default is None]
    key = draw(st.none() | st.lists(st.sampled_from(able), unique=True)) if able else None
    return Schema(fields, key=key, name=draw(st.none() | st.sampled_from(["x", "y"])))


@st.composite
def schemas_with_data(draw: st.DrawFn) -> tuple[Schema, dict[str, Any]]:
    """A schema and data that it accepts."""
    schema = draw(schemas())
    data: dict[str, Any] = {}
    for one in schema.fields:
        if one.required or draw(st.booleans()):
            data[one.name] = draw(VALUES[one.type] if one.required else st.none() | VALUES[one.type])
    return schema, data


# --- declaring --------------------------------------------------------------------------------------------------------


def test_fields_may_be_written_in_several_ways() -> None:
    """Fields, pairs, a map to types, a map to options: one schema."""
    expected = Schema([Field("a", "text", required=True), Field("b", "int")])
    assert Schema([("a", {"type": str, "required": True}), ["b", int]]) == expected  # type: ignore[list-item]
    assert Schema({"a": {"type": "text", "required": True}, "b": "int64"}) == expected
    assert Schema({"a": Field("a", str, required=True), "b": Field("b", int)}) == expected
    assert Schema(iter(expected.fields)) == expected
    assert journal.Schema is Schema


def test_a_schema_is_a_frozen_value() -> None:
    """It hashes, is copied and pickled, and cannot be changed."""
    assert hash(PAGE) == hash(copy.deepcopy(PAGE))
    assert pickle.loads(pickle.dumps(PAGE)) == PAGE
    assert replace(PAGE, name="x") == Schema(PAGE.fields, key="uri", name="x") != PAGE
    with pytest.raises(FrozenInstanceError):
        PAGE.key = None  # type: ignore[misc]


@pytest.mark.parametrize(
    "fields",
    [None, 1, "uri", b"uri", [], {}, ["uri"], [("a",)], [("a", "int", True)], [("a", "int"), ("a", "text")], {"a": "number"}, {"a": None},
     {1: "int"}, {"a": {}}, {"a": {"type": "int", "requierd": True}}, {"a": {"type": []}}, {"a": Field("b", int)}, [None],
     [(f"f{n}", int) for n in range(FIELDS_MAX + 1)]],
    ids=lambda fields: repr(fields)[:40],
)  # fmt: skip
def test_wrong_fields_are_invalid(fields: Any) -> None:
    """No fields, too many, two of one name, and what is no field."""
    with pytest.raises(Invalid):
        Schema(fields)


@pytest.mark.parametrize(
    "key", ["c", ["a", "c"], ["a", "a"], [1], 1, {"a": 1}, "", [""], ["f"], ["l"], ["x"], ["d"]], ids=str
)
def test_wrong_keys_are_invalid(key: Any) -> None:
    """Unknown names, repeated ones, types with several spellings of one value, and a field that has a default."""
    fields = {"a": "text", "f": "float", "l": "list", "x": "any", "d": {"type": "int", "default": 1}}
    with pytest.raises(Invalid):
        Schema(fields, key=key)


def test_a_misspelled_key_field_is_told_the_nearest() -> None:
    """As for data."""
    with pytest.raises(Invalid, match="'priorty': did you mean 'priority'"):
        Schema({"priority": int}, key="priorty")


def test_fields_of_the_key_are_required() -> None:
    """Whether or not it is said; an empty key is none."""
    assert Schema({"a": str, "b": int}, key=["a"]).fields == (Field("a", str, required=True), Field("b", int))
    assert Schema({"a": str}, key=[]).key is None


@pytest.mark.parametrize("name", ["", 1, "x" * 256, "\n", b"x"])
def test_wrong_names_are_invalid(name: Any) -> None:
    """The name of a schema is a printable text."""
    with pytest.raises(Invalid, match="name of a schema"):
        Schema({"a": int}, name=name)


# --- checking ---------------------------------------------------------------------------------------------------------


def test_data_is_completed_in_the_order_of_the_schema() -> None:
    """Defaults are filled in, dates become milliseconds; what has no default stays out; the caller's dict is not touched."""
    data = {"seen": datetime(1970, 1, 2, tzinfo=UTC), "uri": "/"}
    assert list(PAGE.check(data).items()) == [("uri", "/"), ("depth", 0), ("seen", 86_400_000), ("tags", [])]
    assert PAGE.check({"uri": "/"}) == {"uri": "/", "depth": 0, "tags": []}
    assert list(data) == ["seen", "uri"] and isinstance(data["seen"], datetime)
    assert PAGE.check(MappingProxyType({"uri": "/", "depth": 1, "tags": ["a"]})) == {
        "uri": "/",
        "depth": 1,
        "tags": ["a"],
    }


def test_none_is_kept_where_a_field_is_not_required() -> None:
    """It is not the same as absent: no default takes its place."""
    assert PAGE.check({"uri": "/", "depth": None}) == {"uri": "/", "depth": None, "tags": []}
    with pytest.raises(Invalid, match="'uri' is None, but it is required"):
        PAGE.check({"uri": None})
    with pytest.raises(Invalid, match="'x' is None"):
        Schema([Field("x", "any", required=True)]).check({"x": None})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "'uri' is missing"),
        ({"depth": 1}, "'uri' is missing"),
        ({"uir": "/"}, "unknown field 'uir': did you mean 'uri'?"),
        ({"uri": "/", "dept": 1}, "unknown field 'dept': did you mean 'depth'?"),
        ({"uri": "/", "zzzz": 1}, "unknown field 'zzzz': the fields are uri, depth, seen, tags"),
        ({"uri": "/", "x" * 10**6: 1}, "unknown field"),
        ({"uri": "/", 1: 1}, "the key 1, which is int: keys must be text"),
        ({"uri": "/", b"depth": 1}, "keys must be text"),
        ({"uri": 1}, "the field 'uri' (text) is 1, which is int: it must be a str"),
        ({"uri": "/", "depth": 256}, "the field 'depth' (uint8) is 256, which is int: it must be an int from 0 to 255"),
        ({"uri": "/", "depth": True}, "which is bool"),
        (None, "takes a dict"),
        ("uri", "takes a dict"),
        ([("uri", "/")], "takes a dict"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_wrong_data_is_refused_with_the_reason(data: Any, message: str) -> None:
    """The message names the field, what was found, and what is wanted or meant; it stays short."""
    with pytest.raises(Invalid) as e:
        PAGE.check(data)
    assert message in str(e.value) and len(str(e.value)) < 500


def test_an_integer_default_of_a_float_field_is_filled_in_as_a_float() -> None:
    """Rows of one field have one type."""
    stored = Schema([Field("f", float, default=2)]).check({})
    assert stored == {"f": 2.0} and type(stored["f"]) is float


@given(schemas_with_data())
def test_checking_twice_is_checking_once(pair: tuple[Schema, dict[str, Any]]) -> None:
    """What is stored can be put again and is the same, also after it went through the store's packing."""
    schema, data = pair
    stored = schema.check(data)
    again = schema.check(stored)
    assert again == stored and list(again) == list(stored)
    assert pack_data(schema.check(unpack_data(pack_data(stored)))) == pack_data(stored)


@given(schemas(), st.dictionaries(NAMES | st.integers(0, 2), PLAIN) | PLAIN)
def test_any_data_is_checked_or_refused(schema: Schema, data: Any) -> None:
    """Nothing but Invalid is raised; what passes holds no field that the schema does not."""
    try:
        stored = schema.check(data)
    except Invalid:
        return
    assert stored.keys() <= {one.name for one in schema.fields} and data.keys() <= stored.keys()


# --- keys -------------------------------------------------------------------------------------------------------------


def test_one_text_or_bytes_field_is_the_key_itself() -> None:
    """Nothing is escaped: the key is what the user wrote."""
    assert Schema({"k": str}, key="k").key_of({"k": "a:b\\"}) == "a:b\\"
    assert Schema({"k": bytes}, key="k").key_of({"k": b"\xff:"}) == b"\xff:"


def test_other_keys_are_parts_joined_by_colons() -> None:
    """Numbers, bool, bytes, dates and texts, in the order of the key, whatever else is in the data."""
    fields = {"t": str, "n": "int8", "b": bool, "y": bytes, "d": datetime, "x": list}
    schema = Schema(fields, key=["n", "t", "b", "y", "d"])
    data = {"t": "a:b\\", "n": -5, "b": True, "y": b"\x00\xff", "d": datetime(1970, 1, 2, tzinfo=UTC), "x": [1]}
    assert schema.key_of(data) == "-5:a\\:b\\\\:true:00ff:86400000"
    assert schema.key_of(schema.check(data)) == schema.key_of(data)
    assert Schema({"n": int}, key="n").key_of({"n": 5}) == "5"


TWO = Schema({"a": str, "b": str}, key=["a", "b"])
PARTS = st.tuples(*[st.text("ab:\\", max_size=4)] * 2)


@given(PARTS, PARTS)
def test_different_parts_give_different_keys(one: tuple[str, str], two: tuple[str, str]) -> None:
    """A colon in a part is not taken for one between parts."""
    keys = [TWO.key_of(dict(zip("ab", parts, strict=True))) for parts in (one, two)]
    assert (keys[0] == keys[1]) == (one == two)


def test_a_key_has_one_byte_to_one_kibibyte() -> None:
    """As all keys have; the message names the fields."""
    schema = Schema({"k": str}, key="k")
    assert schema.key_of({"k": "é" * 512}) == "é" * 512
    for wrong in ("", "a" * 1025, "é" * 513):
        with pytest.raises(Invalid, match="the key made of k: a key has 1 to 1024 bytes"):
            schema.key_of({"k": wrong})
    assert TWO.key_of({"a": "", "b": ""}) == ":"
    with pytest.raises(Invalid, match="the key made of a, b"):
        TWO.key_of({"a": "x" * 600, "b": "y" * 600})


@pytest.mark.parametrize("data", [{}, {"a": "x"}, {"a": "x", "b": None}, {"a": "x", "b": 1}, None, "ab", []])
def test_a_key_needs_all_of_its_fields(data: Any) -> None:
    """Absent, None, of another type, or no map at all."""
    with pytest.raises(Invalid):
        TWO.key_of(data)


def test_without_key_fields_the_caller_gives_the_key() -> None:
    """The message says both ways out."""
    with pytest.raises(Invalid, match="give the key, or declare"):
        Schema({"a": str}).key_of({"a": "x"})


@given(schemas_with_data())
def test_keys_of_checked_data_are_user_keys(pair: tuple[Schema, dict[str, Any]]) -> None:
    """The same from the data as given and as stored."""
    schema, data = pair
    if schema.key is None:
        return
    try:
        key = schema.key_of(data)
    except Invalid:
        assert len(schema.key) == 1 and data[schema.key[0]] in ("", b"")  # the one reason that data this small has
        return
    assert key == schema.key_of(schema.check(data)) and key_bytes(key)


# --- unions -----------------------------------------------------------------------------------------------------------


def test_a_union_has_every_field_in_the_order_of_appearance() -> None:
    """Types widen, required holds where all require it, the default is the newest one's."""
    old = Schema(
        [Field("uri", str, required=True), Field("n", "uint8", default=1), Field("gone", bool, required=True)],
        key="uri",
        name="a",
    )
    new = Schema([Field("new", int, required=True), Field("n", "int8", default=-1), Field("uri", str)], key="uri", name="b")  # fmt: skip
    assert Schema.union([old, new]) == Schema(
        [Field("uri", str, required=True), Field("n", "int16", default=-1), Field("gone", bool), Field("new", int)],
        key="uri",
        name="b",
    )


def test_a_newer_schema_may_take_a_default_back() -> None:
    """No default is the newest one's word too."""
    old, new = Schema([Field("n", int, default=1)]), Schema([Field("n", int)])
    assert Schema.union([old, new]).fields == (Field("n", int),)
    assert Schema.union([new, old]).fields == (Field("n", int, default=1),)


def test_a_union_keeps_the_key_where_it_is_the_same() -> None:
    """Another key, no key, or a type that no key can have: readers get the fields, and no key."""
    text, number, other = (
        Schema({"a": kind, "b": int}, key=key) for kind, key in [(str, "a"), (int, "a"), (str, ["a", "b"])]
    )
    assert Schema.union([text, text]).key == ("a",)
    assert Schema.union([text, other]).key is None
    assert Schema.union([text, Schema({"a": str})]).key is None
    assert Schema.union([text, number]).key is None


def test_a_union_of_none_is_invalid() -> None:
    """There is no schema without fields."""
    with pytest.raises(Invalid, match="at least one"):
        Schema.union([])


@given(schemas(), schemas(), schemas())
def test_a_union_does_not_depend_on_grouping(a: Schema, b: Schema, c: Schema) -> None:
    """The union of unions is the union of all; one with itself is itself."""
    whole = Schema.union([a, b, c])
    assert Schema.union([Schema.union([a, b]), c]) == whole
    assert Schema.union([a, Schema.union([b, c])]) == whole
    assert Schema.union([a, a]) == Schema.union([a]) == a


@given(schemas_with_data(), schemas())
def test_data_of_an_old_generation_passes_the_union(pair: tuple[Schema, dict[str, Any]], other: Schema) -> None:
    """Readers meet no row that contradicts the schema that they were given."""
    schema, data = pair
    stored = schema.check(data)
    for union in (Schema.union([schema, other]), Schema.union([other, schema])):
        assert stored.keys() <= union.check(stored).keys()


# --- as a map ---------------------------------------------------------------------------------------------------------


@given(schemas())
def test_a_schema_is_read_back_from_the_catalog(schema: Schema) -> None:
    """Through msgpack, as it is kept."""
    kept = schema.to_dict()
    assert kept["v"] == 1
    assert Schema.from_dict(kept) == schema
    assert Schema.from_dict(msgpack.unpackb(msgpack.packb(kept))) == schema
    assert Schema.from_dict(msgpack.unpackb(msgpack.packb(kept), use_list=False)) == schema


GOOD = {"v": 1, "name": None, "key": None, "fields": [{"name": "a", "type": "int"}]}


@pytest.mark.parametrize(
    "kept",
    [None, [], "x", {}, {**GOOD, "v": 2}, {**GOOD, "v": True}, {**GOOD, "v": "1"}, {**GOOD, "more": 1}, {**GOOD, "fields": {}}, {"v": 1},
     {**GOOD, "fields": ["a"]}, {**GOOD, "fields": [{"type": "int"}]}, {**GOOD, "fields": [{"name": "a"}]}, {**GOOD, "key": "b"},
     {**GOOD, "fields": [{"name": "a", "type": "int", "size": 1}]}, {**GOOD, "name": 5}, {**GOOD, "fields": [{"name": [], "type": "int"}]}],
    ids=str,
)  # fmt: skip
def test_a_map_that_is_no_schema_is_invalid(kept: Any) -> None:
    """A newer version and unknown options are refused, not ignored."""
    assert Schema.from_dict(GOOD) == Schema({"a": int})
    with pytest.raises(Invalid):
        Schema.from_dict(kept)


PIECES = st.sampled_from(
    ["v", "name", "key", "fields", "type", "required", "default", "a", "b", "int", "text", "any", 1, True]
)
MAPS = st.recursive(
    PIECES | PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PIECES, inner, max_size=4),
    max_leaves=12,
)


@given(MAPS | st.builds(lambda fields, key: {"v": 1, "fields": fields, "key": key}, st.lists(MAPS), MAPS))
def test_any_map_gives_a_schema_or_invalid(kept: Any) -> None:
    """Whatever the catalog, or who writes to it, holds."""
    try:
        schema = Schema.from_dict(kept)
    except Invalid:
        return
    assert Schema.from_dict(schema.to_dict()) == schema
