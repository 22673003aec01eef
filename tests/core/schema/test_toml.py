"""Schemas in TOML: what is read, and that anything else is refused by name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.schema.field import Field
from journal.core.schema.schema import Schema
from journal.core.schema.toml import CHARACTERS_MAX, DOTS_MAX, read_toml
from journal.errors import Invalid

PAGES = """
[schema]
name = "pages"
key = ["site", "uri"]

[schema.fields]
site = "text"

[schema.fields.uri]
type = "text"
required = true

[schema.fields.depth]
type = "uint8"
default = 0

[schema.fields.seen]
type = "date_ms"
default = 1970-01-02T01:00:00+01:00

[schema.fields.digest]
type = "bytes"
default = "00ff"

[schema.fields."content-type"]
type = "string"
default = "text/html"

[schema.fields.extra]
type = "map"
default = { a = [1, 2.5, true] }
"""


def test_a_schema_is_read_from_toml() -> None:
    """A table or a type for each field, in the order of the text; a date is TOML's own, bytes are hex digits."""
    assert Schema.from_toml(PAGES) == Schema(
        [
            Field("site", str, required=True),
            Field("uri", str, required=True),
            Field("depth", "uint8", default=0),
            Field("seen", "date_ms", default=datetime(1970, 1, 2, tzinfo=UTC)),
            Field("digest", bytes, default=b"\x00\xff"),
            Field("content-type", str, default="text/html"),
            Field("extra", dict, default={"a": [1, 2.5, True]}),
        ],
        key=["site", "uri"],
        name="pages",
    )


def test_one_key_field_needs_no_list() -> None:
    """And a schema needs no key."""
    fields = "[schema.fields]\nuri = 'text'\n"
    assert Schema.from_toml("[schema]\nkey = 'uri'\n" + fields).key == ("uri",)
    assert Schema.from_toml(fields).key is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", r"\[schema\] is missing"),
        ("x = 1", "unknown option 'x'"),
        ("schema = 1", r"\[schema\] is 1"),
        ("[schema]", r"\[schema.fields\] is missing"),
        ("[schema]\nkeys = ['a']\n[schema.fields]\na = 'int'", "unknown option 'keys'"),
        ("[schema]\nfields = 1", "must be a table"),
        ("[schema.fields]", "1 to 4096 fields"),
        ("[schema.fields]\na = 1", r"\[schema.fields.a\] is 1"),
        ("[schema.fields]\na = 'number'", "'a': 'number' is not a type"),
        ("[schema.fields.a]\nrequired = true", "'a' has no type"),
        ("[schema.fields.a]\ntype = 'int'\nrequierd = true", "unknown option 'requierd'"),
        ("[schema.fields.a]\ntype = 'int'\nrequired = 'yes'", "required of the field 'a'"),
        ("[schema.fields.a]\ntype = 'int'\ndefault = 'x'", "'a' .int. is 'x'"),
        ("[schema.fields.a]\ntype = 'bytes'\ndefault = 'xy'", "hex digits"),
        ("[schema.fields.a]\ntype = 'nothing'\ndefault = 'xy'", "not a type"),
        ("[schema.fields.a]\ntype = 5\ndefault = 'xy'", "not a type"),
        ("[schema.fields.a]\ntype = 'date_ms'\ndefault = 1970-01-02T00:00:00", "naive"),
        ("[schema.fields.a]\ntype = 'date_ms'\ndefault = 1970-01-02", "date_ms"),
        ("[schema.fields.a]\ntype = 'any'\ndefault = 07:32:00", "default of the field 'a'"),
        ("[schema.fields.a]\ntype = 'int'\ntype = 'int'", "not TOML: Cannot overwrite a value"),
        ("[schema", "not TOML"),
        ("a = " + "9" * 5000, "not TOML"),
        ("a = " + "[" * 5000, "not TOML"),
        ("\ud800", "not TOML"),
    ],
    ids=lambda value: value[-40:],
)
def test_wrong_toml_is_refused_with_the_reason(text: str, reason: str) -> None:
    """What is misspelled is named; nothing is ignored."""
    with pytest.raises(Invalid, match=reason):
        Schema.from_toml(text)


@pytest.mark.parametrize("text", [None, b"[schema]", 1])
def test_only_text_is_read(text: Any) -> None:
    """Neither bytes nor paths: nothing is opened."""
    with pytest.raises(Invalid, match="from a text"):
        read_toml(text)


def test_large_texts_and_long_keys_are_refused_unread() -> None:
    """Reading a key with very many parts would take minutes."""
    with pytest.raises(Invalid, match="characters"):
        read_toml(" " * (CHARACTERS_MAX + 1))
    with pytest.raises(Invalid, match=r"line 2 .* dots"):
        read_toml("\n" + ".".join("a" * (DOTS_MAX + 2)) + " = 1")


LINES = st.sampled_from(
    [
        *PAGES.splitlines(),
        *(
            "[schema.fields.x]",
            "[[schema.fields]]",
            "type = 'any'",
            "type = []",
            "default = [1]",
            "default = nan",
            "default = {}",
        ),
        *(
            "required = false",
            "key = 'uri'",
            "key = 5",
            "schema.key = 1",
            "[schema.fields.uri.type]",
            '"" = "int"',
            "a = 1e400",
        ),
    ]
)


@given(st.text() | st.lists(LINES | st.text(max_size=5), max_size=12).map("\n".join))
def test_any_text_gives_a_schema_or_invalid(text: str) -> None:
    """And a schema that was read is whole."""
    try:
        schema = Schema.from_toml(text)
    except Invalid:
        return
    assert Schema.from_dict(schema.to_dict()) == schema


@given(st.data())
def test_a_text_cut_or_changed_gives_a_schema_or_invalid(data: st.DataObject) -> None:
    """As half a file, or one with a slip, does."""
    at = data.draw(st.integers(0, len(PAGES)))
    text = PAGES[:at] + data.draw(st.text(max_size=2)) + PAGES[at + data.draw(st.sampled_from([0, 1, 5, 10**6])) :]
    try:
        schema = Schema.from_toml(text)
    except Invalid:
        return
    assert schema.fields
