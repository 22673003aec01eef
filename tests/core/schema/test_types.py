"""Types of fields: their spellings, what each takes and gives, and what two of them have in common."""

from __future__ import annotations

from collections import OrderedDict, UserDict
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from itertools import product
from typing import Any

import pytest

from journal.core.limits import DATE_MAX
from journal.core.schema.types import INTEGERS, TYPES, check_of, joined, shown, type_name
from journal.errors import Invalid


class Level(IntEnum):
    """A number with a name."""

    HIGH = 7


class Colour(StrEnum):
    """A text with a name."""

    RED = "red"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (str, "text"), (bytes, "bytes"), (bool, "bool"), (int, "int"), (float, "float"), (datetime, "date_ms"),
        (list, "list"), (tuple, "list"), (dict, "map"), (object, "any"), (Any, "any"),
        ("int64", "int"), ("int64_t", "int"), ("uint8_t", "uint8"), ("string", "text"), ("char", "text"), ("binary", "bytes"),
        ("bits8", "uint8"), ("bits64", "uint64"), ("bits128", "bytes"), ("oid", "uint64"), ("float32", "float"),
        ("time_milliseconds", "date_ms"), ("time_ms_t", "date_ms"), ("time_t", "int"), ("time_seconds", "int"),
        ("time_microseconds", "int"), *((name, name) for name in TYPES),
    ],
    ids=str,
)  # fmt: skip
def test_a_type_has_one_name_and_many_spellings(given: Any, name: str) -> None:
    """Python's types, C's and those of table declarations mean one of ours; dates in another unit stay numbers."""
    assert type_name(given) == name


@pytest.mark.parametrize(
    "wrong", ["", "txt", "TEXT", "uint7", "int128", "float128", None, 1, [], {}, set, complex, list[str]]
)
def test_an_unknown_type_is_refused_with_those_that_are_known(wrong: Any) -> None:
    """The message names what was found and every type there is."""
    with pytest.raises(Invalid) as e:
        type_name(wrong)
    assert shown(wrong) in str(e.value) and all(name in str(e.value) for name in TYPES)


def test_a_type_that_is_too_wide_is_told_what_to_use() -> None:
    """Nothing holds 128 bits but bytes and text."""
    with pytest.raises(Invalid, match="bytes or text"):
        type_name("uint256")


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [
        ("text", "", ""), ("text", "é\0", "é\0"), ("text", Colour.RED, "red"),
        ("bytes", b"\xff", b"\xff"), ("bytes", bytearray(b"a"), b"a"), ("bytes", memoryview(b"a"), b"a"),
        ("bool", True, True), ("bool", False, False),
        ("int", -(1 << 63), -(1 << 63)), ("uint8", Level.HIGH, 7), ("uint64", (1 << 64) - 1, (1 << 64) - 1),
        ("float", 1.5, 1.5), ("float", 2, 2.0), ("float", Level.HIGH, 7.0), ("float", float("inf"), float("inf")),
        ("date_ms", 0, 0), ("date_ms", DATE_MAX, DATE_MAX), ("date_ms", datetime(1970, 1, 2, tzinfo=UTC), 86_400_000),
        ("list", [1, "a"], [1, "a"]), ("list", (1, 2), [1, 2]),
        ("map", {"a": 1}, {"a": 1}), ("map", OrderedDict(a=1), {"a": 1}), ("map", UserDict(a=1), {"a": 1}),
        ("any", "x", "x"), ("any", True, True), ("any", [1], [1]),
    ],
)  # fmt: skip
def test_a_value_is_stored_as_its_plain_type(kind: str, given: Any, stored: Any) -> None:
    """What comes out is plain, and passes again unchanged."""
    check = check_of(kind, "f")
    found = check(given)
    assert found == stored and type(found) is type(stored)
    assert check(found) is found or check(found) == found


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("text", b"a"), ("text", 1), ("text", "\ud800"), ("bytes", "a"), ("bytes", [1]), ("bool", 1), ("bool", "true"), ("bool", 0),
        ("int", True), ("int", 1.0), ("int", "1"), ("int", 10**5000), ("uint8", False), ("float", True), ("float", "1"),
        ("float", 10**400), ("float", 10**5000), ("date_ms", -1), ("date_ms", DATE_MAX + 1), ("date_ms", 10**5000),
        ("date_ms", 1.5), ("date_ms", True), ("date_ms", "2024-01-01"), ("date_ms", datetime(2024, 1, 1)),  # noqa: DTZ001
        ("date_ms", datetime(1969, 1, 1, tzinfo=UTC)), ("list", "ab"), ("list", {1}), ("map", [("a", 1)]), ("map", "a"),
    ],
    ids=lambda value: shown(value)[:30],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(kind: str, wrong: Any) -> None:
    """The message names the field and its type; bool is no int, and int is no bool."""
    with pytest.raises(Invalid, match=rf"'field' \({kind}\)"):
        check_of(kind, "field")(wrong)


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_have_a_range(kind: str) -> None:
    """The ends are in, the next ones out, and the message says the range."""
    low, high = INTEGERS[kind]
    check = check_of(kind, "n")
    assert (check(low), check(high)) == (low, high)
    for wrong in (low - 1, high + 1):
        with pytest.raises(Invalid, match=f"from {low} to {high}"):
            check(wrong)


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        ("uint8", "uint16", "uint16"), ("int8", "uint8", "int16"), ("int16", "uint8", "int16"), ("uint32", "int8", "int"),
        ("uint64", "uint8", "uint64"), ("uint64", "int8", "any"), ("int", "uint32", "int"),
        ("int", "float", "float"), ("uint8", "float", "float"), ("uint64", "float", "any"),
        ("text", "bytes", "any"), ("int", "bool", "any"), ("int", "date_ms", "any"), ("list", "map", "any"), ("any", "int", "any"),
    ],
)  # fmt: skip
def test_two_types_have_the_narrowest_one_in_common(a: str, b: str, both: str) -> None:
    """Integers widen, int and float are float, the rest is any."""
    assert joined(a, b) == joined(b, a) == both


def test_joining_does_not_depend_on_grouping() -> None:
    """Over all triples of types; and a type joined with itself is itself."""
    for a, b, c in product(TYPES, repeat=3):
        assert joined(joined(a, b), c) == joined(a, joined(b, c)), (a, b, c)
    assert all(joined(a, a) == a and joined(a, "any") == "any" for a in TYPES)


def test_integers_join_without_losing_a_value() -> None:
    """What both hold, the joined one holds."""
    for a, b in product(INTEGERS, repeat=2):
        check = check_of(joined(a, b), "n")
        for value in (*INTEGERS[a], *INTEGERS[b]):
            assert check(value) == value


def test_what_is_shown_is_short() -> None:
    """Neither a long text nor a number without a text makes a message unreadable."""
    assert len(shown("x" * 10**6)) < 200
    assert len(shown(dict.fromkeys(range(1000), "x" * 10**6))) < 1000
    assert "int" in shown(10**5000) and "list" in shown([10**5000])
