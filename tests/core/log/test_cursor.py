"""Cursors: text and back, order, and what is no cursor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import Cursor
from journal.core.log.cursor import base_of, cursor_of
from journal.errors import Invalid

CURSORS = st.builds(Cursor, st.integers(1, 0xFFFFFFFF), st.integers(-1, 10**18 - 1))


def test_the_text_is_that_of_the_design() -> None:
    """Version, order in hex, offset in 18 digits; -1 is before the first."""
    assert str(Cursor(1, 4)) == "001-0001-000000000000000004"
    assert str(Cursor(255, -1)) == "001-00ff--1"
    assert Cursor.parse("001-0001-000000000000000004") == Cursor(1, 4)
    assert (Cursor(1, 4).order, Cursor(1, 4).offset) == (1, 4)


@given(CURSORS)
def test_a_cursor_is_read_back_from_its_text(cursor: Cursor) -> None:
    """Parsing is the other way round of printing."""
    assert Cursor.parse(str(cursor)) == cursor


@given(CURSORS, CURSORS)
def test_cursors_sort_by_generation_then_offset(a: Cursor, b: Cursor) -> None:
    """Later in the log is larger."""
    assert (a < b) == ((a.order, a.offset) < (b.order, b.offset))


@given(st.from_regex(r"001-[0-9a-fA-F]{3,9}-(-1|[0-9]{17,19})", fullmatch=True))
def test_one_cursor_has_one_text(text: str) -> None:
    """What is read is what would be written, up to the case of the hexadecimal digits; a text that never was is refused."""
    try:
        cursor = Cursor.parse(text)
    except Invalid:
        return
    assert str(cursor) == text.lower()


def test_the_order_grows_past_four_digits() -> None:
    """A journal that rotates each hour gets there in seven years."""
    assert str(Cursor(0x10000, 0)) == "001-10000-000000000000000000"
    assert Cursor.parse("001-10000-000000000000000000") == Cursor(0x10000, 0)


@pytest.mark.parametrize(
    ("text", "cursor"),
    [("BEGIN", Cursor(1, -1)), ("7", Cursor(1, 7)), ("0", Cursor(1, 0)), ("0" * 16 + "42", Cursor(1, 42)),
     ("9" * 18, Cursor(1, 10**18 - 1))],
)  # fmt: skip
def test_old_forms_mean_the_first_generation(text: str, cursor: Cursor) -> None:
    """A bare offset and BEGIN come from stores with one generation."""
    assert Cursor.parse(text) == cursor


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("-1", "needs its generation"),
        ("END", "not a fixed place"),
        ("begin", "it has 1 of the three parts"),
        ("001-0001", "it has 2 of the three parts"),
        ("001-0000-000000000000000004", "numbered from 1"),
        ("001-0001-4", "its offset is '4'"),
        ("001-0001-", "its offset is ''"),
        ("002-0001-000000000000000004", "its version is '002'"),
        ("1-0001-000000000000000004", "its version is '1'"),
        ("001-0001--2", "its offset is '-2'"),
        ("001-0001---1", "its offset is '--1'"),
        ("001-0001-0000000000000000004", "its offset is '0000000000000000004'"),
        ("001-0001-000000000000000004-5", "its offset is '000000000000000004-5'"),
        ("001-0001-000000000000000004 ", "white space"),
        ("001-0001-000000000000000004\n", "white space"),
        ("001-g001-000000000000000004", "its order is 'g001'"),
        ("001-001-000000000000000004", "its order is '001'"),
        ("001-00001-000000000000000004", "its order is '00001'"),
        ("001-123456789-000000000000000004", "its order is '123456789'"),
        ("001--1-000000000000000004", "its order is ''"),
        ("1" * 19, "this one has 19"),
        ("001-0001-00000000000000000\u0664", "neither 18 digits nor -1"),
        ("001-\u0660001-000000000000000004", "hexadecimal"),
        ("\u0664", "it has 1 of the three parts"),
        ("+7", "it has 1 of the three parts"),
        ("1_0", "it has 1 of the three parts"),
    ],
)  # fmt: skip
def test_anything_else_is_invalid_with_the_reason(text: str, reason: str) -> None:
    """Nearly a cursor is none; the message says what is wrong and what is expected."""
    with pytest.raises(Invalid) as refusal:
        Cursor.parse(text)
    assert reason in str(refusal.value)
    assert "Expected 001-<order" in str(refusal.value)


def test_a_long_text_is_not_repeated_whole() -> None:
    """A message stays readable whatever was given."""
    with pytest.raises(Invalid) as refusal:
        Cursor.parse("x" * 10**6)
    assert len(str(refusal.value)) < 500


@given(st.text(max_size=40))
def test_any_text_is_a_cursor_or_invalid(text: str) -> None:
    """The parser is total."""
    try:
        cursor = Cursor.parse(text)
    except Invalid:
        return
    assert cursor.order >= 1 and cursor.offset >= -1


@pytest.mark.parametrize("wrong", [None, 5, b"BEGIN", Cursor(1, 1)])
def test_only_text_is_parsed(wrong: object) -> None:
    """A wrong type is Invalid, not a TypeError."""
    with pytest.raises(Invalid):
        Cursor.parse(wrong)  # type: ignore[arg-type]


@given(st.integers(1, 0xFFFFFFFF), st.integers(-1, (1 << 40) - 2))
def test_a_place_has_one_cursor(order: int, offset: int) -> None:
    """Also the place before the first change of a generation."""
    assert cursor_of(base_of(order) + offset) == Cursor(order, offset)
