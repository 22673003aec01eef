"""Cursors across generations, against a model that has all changes of all generations in one list."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import Cursor
from journal.core.log.cursor_math import Span, compare, distance, lag, newest, oldest, resolve, roll_forward, shift
from journal.errors import CursorUnavailable, Invalid

# Generation 3 never was; 2 and 4 are empty; of 5 the first two changes are gone.
SPANS = [
    Span(1, 2, True),
    Span(2, -1, True),
    Span(4, -1, True),
    Span(5, 4, True, 2),
    Span(6, 1),
]
GONE = [Span(1, 2, True, is_gone=True), Span(2, -1, True, is_gone=True), Span(3, 4, True, 2), Span(4)]


class Model:
    """One list of changes, and which of them can be read."""

    def __init__(self, spans: list[Span]) -> None:
        self.changes = [(s.order, offset) for s in spans for offset in range(s.last + 1)]
        self.readable = {
            (s.order, offset) for s in spans if not s.is_gone for offset in range(s.oldest, s.last + 1)
        }  # fmt: skip
        self.cursors = [Cursor(s.order, offset) for s in spans for offset in range(-1, s.last + 1)]
        self.end = spans[-1].order

    def position(self, cursor: Cursor) -> int:
        """How many changes are at or before a cursor."""
        return sum(change <= tuple(cursor) for change in self.changes)

    def next(self, cursor: Cursor) -> tuple[int, int] | None:
        """The change that comes after a cursor."""
        return next((change for change in self.changes if change > tuple(cursor)), None)

    def tail_is_readable(self, cursor: Cursor) -> bool:
        """Whether all changes after a cursor are there."""
        return all(change in self.readable for change in self.changes[self.position(cursor) :])


@st.composite
def rows_of_spans(draw: st.DrawFn) -> list[Span]:
    """Generations with skipped numbers, empty ones, cut ones, gone ones, in any mixture; the last is open or closed."""
    spans: list[Span] = []
    order = 0
    count = draw(st.integers(1, 6))
    for i in range(count):
        order += draw(st.integers(1, 3))
        last = draw(st.integers(-1, 4))
        is_last = i == count - 1
        is_gone = not is_last and draw(st.booleans())
        is_closed = not is_last or draw(st.booleans())
        spans.append(Span(order, last, is_closed, draw(st.integers(0, last + 1)), is_gone))
    return spans


class Case(NamedTuple):
    """Spans with their model and two places in them."""

    spans: list[Span]
    model: Model
    a: Cursor
    b: Cursor


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any two cursors that the journal can have given out."""
    spans = draw(rows_of_spans())
    model = Model(spans)
    place = st.sampled_from(model.cursors)
    return Case(spans, model, draw(place), draw(place))


# --- by example -------------------------------------------------------------------------------------------------------


def test_the_end_of_a_closed_generation_is_the_beginning_of_the_next() -> None:
    """Over any number of empty ones; the end of the open one stays."""
    assert roll_forward(Cursor(1, 2), SPANS) == Cursor(5, -1)
    assert roll_forward(Cursor(2, -1), SPANS) == roll_forward(Cursor(4, -1), SPANS) == Cursor(5, -1)
    assert roll_forward(Cursor(1, 1), SPANS) == Cursor(1, 1)
    assert roll_forward(Cursor(6, 1), SPANS) == Cursor(6, 1)
    assert roll_forward(Cursor(1, 0), [Span(1, 0, True)]) == Cursor(1, 0)


def test_reading_goes_on_where_the_next_change_is() -> None:
    """In the generation of that change."""
    assert resolve(Cursor(1, 0), SPANS) == Cursor(1, 0)
    assert resolve(Cursor(5, 1), SPANS) == Cursor(5, 1)
    assert resolve(Cursor(5, 4), SPANS) == Cursor(6, -1)
    assert resolve(Cursor(6, 1), SPANS) == Cursor(6, 1)


@pytest.mark.parametrize("cursor", [Cursor(1, 2), Cursor(4, -1), Cursor(5, -1), Cursor(5, 0)])
def test_a_cursor_before_gone_changes_is_unavailable(cursor: Cursor) -> None:
    """The error names the cursor, why, and the oldest that can be had."""
    with pytest.raises(CursorUnavailable) as refusal:
        resolve(cursor, SPANS)
    text = str(refusal.value)
    assert str(cursor) in text and "begins with offset 2" in text and str(Cursor(5, 1)) in text


def test_the_very_end_of_a_gone_generation_rolls_forward() -> None:
    """Nothing is missed by going on from there; anywhere else in it is unavailable."""
    spans = [Span(1, 2, True, is_gone=True), Span(2, -1, True, is_gone=True), Span(3, 4)]
    assert resolve(Cursor(1, 2), spans) == resolve(Cursor(2, -1), spans) == Cursor(3, -1)
    for offset in (-1, 0, 1):
        with pytest.raises(CursorUnavailable, match=r"has no log any more.*001-0003--1"):
            resolve(Cursor(1, offset), spans)
    with pytest.raises(CursorUnavailable, match="begins with offset 2"):
        resolve(Cursor(1, 2), GONE)


def test_distances_reach_across_gone_generations() -> None:
    """Their last offset is known."""
    assert distance(Cursor(1, -1), Cursor(4, -1), GONE) == 8
    assert distance(Cursor(3, 1), Cursor(1, 0), GONE) == -4
    assert distance(Cursor(1, 2), Cursor(3, -1), GONE) == 0
    assert lag(Cursor(1, 1), GONE) == 6
    assert shift(Cursor(4, -1), -8, GONE) == Cursor(1, -1)
    assert shift(Cursor(1, 0), 3, GONE) == Cursor(3, 0)


def test_comparison_knows_places() -> None:
    """Before, the same place, after."""
    assert compare(Cursor(1, 2), Cursor(5, -1), SPANS) == 0
    assert compare(Cursor(1, 1), Cursor(2, -1), SPANS) == -1
    assert compare(Cursor(5, 0), Cursor(1, 2), SPANS) == 1


def test_both_ends() -> None:
    """The oldest from which all can be read, and the place after which nothing is."""
    assert (oldest(SPANS), newest(SPANS)) == (Cursor(5, 1), Cursor(6, 1))
    assert (oldest(GONE), newest(GONE)) == (Cursor(3, 1), Cursor(4, -1))
    assert oldest([Span(1, 5)]) == Cursor(1, -1)
    assert oldest([Span(1, 5, False, 6)]) == newest([Span(1, 5, False, 6)]) == Cursor(1, 5)
    assert oldest([Span(1, 5, True, is_gone=True), Span(2)]) == Cursor(2, -1)


def test_a_reader_is_not_sent_into_a_hole() -> None:
    """A generation that is lost in the middle: the oldest cursor is behind it."""
    spans = [Span(1, 5, True), Span(2, 5, True, is_gone=True), Span(3, 5)]
    assert resolve(Cursor(1, 0), spans) == Cursor(1, 0)
    with pytest.raises(CursorUnavailable, match="001-0003--1"):
        resolve(Cursor(1, 5), spans)


@pytest.mark.parametrize("call", [roll_forward, resolve, lag])
@pytest.mark.parametrize(
    ("cursor", "reason"),
    [
        (Cursor(3, -1), "generation 3, which is not known: they are 1 to 6"),
        (Cursor(7, -1), "generation 7, which is not known"),
        (Cursor(1, 3), "generation 1 ends with offset 2"),
        (Cursor(6, 2), "generation 6 ends with offset 1"),
        (Cursor(2, 0), "generation 2 ends with offset -1"),
    ],
)
def test_what_is_no_place_is_unavailable(call: object, cursor: Cursor, reason: str) -> None:
    """An unknown generation, an offset that its generation does not have; the oldest available is named."""
    with pytest.raises(CursorUnavailable) as refusal:
        call(cursor, SPANS)  # type: ignore[operator]
    assert reason in str(refusal.value) and str(Cursor(5, 1)) in str(refusal.value)


@pytest.mark.parametrize("wrong", [None, "001-0001--1", (1, 2), Cursor(1, -2), Cursor(1, "0"), Cursor(True, 0)])  # type: ignore[arg-type]
def test_what_is_no_cursor_is_invalid(wrong: Cursor) -> None:
    """Not a TypeError from within."""
    for call in (roll_forward, resolve, lag):
        with pytest.raises(Invalid):
            call(wrong, SPANS)
    with pytest.raises(Invalid):
        distance(Cursor(1, 0), wrong, SPANS)


@pytest.mark.parametrize("n", [None, 1.0, "1", True])
def test_only_an_int_shifts(n: int) -> None:
    """Anything else is Invalid."""
    with pytest.raises(Invalid):
        shift(Cursor(1, 0), n, SPANS)


def test_no_spans_at_all_is_invalid() -> None:
    """Every journal has a generation."""
    for call in (oldest, newest):
        with pytest.raises(Invalid):
            call([])
    with pytest.raises(Invalid):
        resolve(Cursor(1, -1), [])


# --- against the model ------------------------------------------------------------------------------------------------


@given(cases())
def test_rolling_forward_keeps_the_place(case: Case) -> None:
    """It is idempotent, never goes back, and the next change, if any, is in the same generation (P4)."""
    spans, model, a, _ = case
    rolled = roll_forward(a, spans)
    assert roll_forward(rolled, spans) == rolled >= a
    assert model.position(rolled) == model.position(a)
    following = model.next(a)
    assert (rolled.order, rolled.offset + 1) == following if following else rolled.order == model.end


@given(cases())
def test_resolving_asks_for_the_next_change_alone(case: Case) -> None:
    """It is there, or has not happened yet, or the cursor is unavailable and the oldest available one is named."""
    spans, model, a, _ = case
    following = model.next(a)
    if following is None or following in model.readable:
        assert resolve(a, spans) == roll_forward(a, spans)
    else:
        with pytest.raises(CursorUnavailable, match=str(oldest(spans))):
            resolve(a, spans)


@given(cases())
def test_distance_counts_the_changes_between(case: Case) -> None:
    """Signed; and comparison is its sign."""
    spans, model, a, b = case
    changes = model.position(b) - model.position(a)
    assert distance(a, b, spans) == changes == -distance(b, a, spans)
    assert compare(a, b, spans) == (changes < 0) - (changes > 0) == -compare(b, a, spans)
    assert lag(a, spans) == len(model.changes) - model.position(a)


@given(cases(), st.integers(-30, 30))
def test_shifting_is_the_other_way_round_of_distance(case: Case, n: int) -> None:
    """Within the ends of the log; beyond them it is unavailable."""
    spans, model, a, b = case
    assert shift(a, distance(a, b, spans), spans) == (roll_forward(b, spans) if compare(a, b, spans) else a)
    if 0 <= model.position(a) + n <= len(model.changes):
        shifted = shift(a, n, spans)
        assert distance(a, shifted, spans) == n
        assert shifted == (roll_forward(shifted, spans) if n else a)
        assert distance(shift(shifted, -n, spans), a, spans) == 0
    else:
        with pytest.raises(CursorUnavailable, match=f"shifted by {n}: only .*{oldest(spans)}"):
            shift(a, n, spans)


@given(rows_of_spans())
def test_the_ends_are_the_outermost_places(spans: list[Span]) -> None:
    """Everything after the oldest can be read, and of no earlier place is that true (P5); nothing is after the newest."""
    model = Model(spans)
    first, last = oldest(spans), newest(spans)
    assert resolve(first, spans) == first and resolve(last, spans) == last
    assert model.tail_is_readable(first)
    assert not any(model.tail_is_readable(c) for c in model.cursors if model.position(c) < model.position(first))
    assert model.next(last) is None
