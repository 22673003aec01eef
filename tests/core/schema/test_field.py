"""A field: its name, its default, and that nobody changes it."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import Any

import pytest

import journal
from journal.core.schema.field import Field
from journal.core.schema.schema import Schema
from journal.errors import Invalid


def test_a_field_is_a_frozen_value() -> None:
    """Equal ones are equal and hash alike, also with a list as default; a field cannot be changed."""
    one, two = Field("tags", list, default=["a"]), Field("tags", "list", default=("a",))
    assert one == two and hash(one) == hash(two)
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(FrozenInstanceError):
        one.name = "x"  # type: ignore[misc]
    assert journal.Field is Field


@pytest.mark.parametrize("name", ["a", "content-type", "a b", "é", "x" * 255, "v", "type"])
def test_a_printable_text_is_a_name(name: str) -> None:
    """Fields are named as the data's keys are."""
    assert Field(name, "int").name == name


@pytest.mark.parametrize("name", ["", "x" * 256, "a\n", "\0", "\ud800", b"a", None, 1, ("a",), []])
def test_anything_else_is_no_name(name: Any) -> None:
    """Empty, long and unprintable texts, and what is not text."""
    with pytest.raises(Invalid, match="name of a field"):
        Field(name, "int")


def test_a_required_field_has_no_default() -> None:
    """It could never apply; the message names the field."""
    with pytest.raises(Invalid, match="'n' is required and has a default"):
        Field("n", int, required=True, default=0)


@pytest.mark.parametrize("required", [1, 0, None, "true"])
def test_required_is_true_or_false(required: Any) -> None:
    """Nothing that merely looks like it."""
    with pytest.raises(Invalid, match="required of the field 'n'"):
        Field("n", int, required=required)


@pytest.mark.parametrize(
    ("kind", "default"),
    [("int", "1"), ("uint8", 256), ("text", 1), ("bool", 0), ("list", "a"), ("any", {1}), ("any", 1 << 64), ("map", {(1, 2): [object()]}),
     ("float", 1 << 70), ("any", datetime(2024, 1, 1, tzinfo=UTC)), ("any", {(): {(1,): 2}, "a": "\ud800"})],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_default_is_of_the_type_and_can_be_stored(kind: str, default: Any) -> None:
    """Otherwise the first entry without the field would be refused."""
    with pytest.raises(Invalid, match="'f'"):
        Field("f", kind, default=default)


def test_a_default_becomes_what_is_stored() -> None:
    """A date becomes milliseconds, a tuple a list."""
    assert Field("d", "date_ms", default=datetime(1970, 1, 2, tzinfo=UTC)).default == 86_400_000
    assert Field("l", "any", default=(1, (2,))).default == [1, [2]]


def test_equal_numbers_of_different_types_are_different_defaults() -> None:
    """1, 1.0 and True are equal in Python and differ in what is stored; NaN is one value."""
    fields = {Field("x", "any", default=value) for value in (1, 1.0, True)}
    assert len(fields) == 3
    assert Field("x", float, default=float("nan")) == Field("x", float, default=float("nan"))


def test_nobody_changes_a_default() -> None:
    """Neither through the list that was given, nor the one that is shown, nor the one that an entry got."""
    given: list[int] = [1]
    schema = Schema([Field("tags", list, default=given)])
    given.append(2)
    schema.fields[0].default.append(3)
    schema.check({})["tags"].append(4)
    assert schema.check({}) == {"tags": [1]}
    assert schema.to_dict()["fields"][0]["default"] == [1]
    assert schema == Schema([Field("tags", list, default=[1])])
