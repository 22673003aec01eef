"""Cursors: text and back, order, and what is no cursor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import Cursor
from journal.errors import Invalid

CURSORS = st.builds(Cursor, st.integers(1, 0xFFFF), st.integers(-1, 10**18 - 1))


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


@pytest.mark.parametrize(("text", "cursor"), [("BEGIN", Cursor(1, -1)), ("7", Cursor(1, 7)), ("0", Cursor(1, 0))])
def test_old_forms_mean_the_first_generation(text: str, cursor: Cursor) -> None:
    """A bare offset and BEGIN come from stores with one generation."""
    assert Cursor.parse(text) == cursor


@pytest.mark.parametrize(
    "text",
    ["", "-1", "END", "001-0000-000000000000000004", "001-0001-4", "002-0001-000000000000000004", "001-0001--2",
     "001-0001-000000000000000004 ", "001-g001-000000000000000004", "1" * 19, "001-0001-00000000000000000\u0664", "\u0664"],
)  # fmt: skip
def test_anything_else_is_invalid(text: str) -> None:
    """Nearly a cursor is none."""
    with pytest.raises(Invalid):
        Cursor.parse(text)


@pytest.mark.parametrize("wrong", [None, 5, b"BEGIN", Cursor(1, 1)])
def test_only_text_is_parsed(wrong: object) -> None:
    """A wrong type is Invalid, not a TypeError."""
    with pytest.raises(Invalid):
        Cursor.parse(wrong)  # type: ignore[arg-type]
