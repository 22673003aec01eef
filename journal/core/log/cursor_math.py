"""
Cursors across generations: a journal's log is a row of generations, and a cursor is a place in that row.

    span         order 1, last 2, closed    order 2, empty, closed    order 4, last 1, open
    changes      0   1   2                                            0   1
    positions  0   1   2   3                3                       3   4   5
    cursors   1:-1 1:0 1:1 1:2      ==     2:-1          ==        4:-1 4:0 4:1

A position is the number of changes before a place. Two cursors are the same place if they have the same position;
distance, comparison and shifting are arithmetic with positions. What can still be read plays no part in it: a
generation whose log is gone keeps its last offset, so places in it still count. Only `resolve` asks whether the change
that comes next is there. Functions are pure and total: they return, or raise CursorUnavailable or Invalid.

The caller gives the spans of all generations that the journal ever had:
P1  Orders ascend. They may skip numbers: a period in which nothing happened has no generation.
P2  Only the last span may be open: no change comes to any other one.
P3  -1 <= last, 0 <= oldest <= last + 1.

What is promised of the results:
P4  A cursor that is returned is rolled forward: of all cursors of its place it is the latest, so the change that comes
    next, if any, is in its own generation. A shift by 0 returns the given cursor.
P5  Reading from `oldest` on meets no change that is gone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from journal.core.log.cursor import Cursor
from journal.errors import CursorUnavailable, Invalid


class Span(NamedTuple):
    """What is known of the log of one generation."""

    order: int
    last: int = -1
    """The offset of its last change; -1: it has none."""
    is_closed: bool = False
    """No more changes will come."""
    oldest: int = 0
    """The first offset that can still be read; last + 1 when nothing is left."""
    is_gone: bool = False
    """Its log was removed altogether."""

    @property
    def readable_from(self) -> int:
        """The first offset that can be read, now or when it comes."""
        return self.last + 1 if self.is_gone else self.oldest


def roll_forward(cursor: Cursor, spans: Sequence[Span]) -> Cursor:
    """The latest cursor of the same place: the end of a closed generation is before the first of the next (P4)."""
    return _rolled(_index(cursor, spans), cursor.offset, spans)


def resolve(cursor: Cursor, spans: Sequence[Span]) -> Cursor:
    """The cursor to go on reading after, which is the same place; CursorUnavailable when what comes next is gone."""
    at = roll_forward(cursor, spans)
    span = spans[_index(at, spans)]
    if at.offset + 1 < span.readable_from:
        raise CursorUnavailable(
            f"the change after {cursor} is gone: generation {span.order} "
            + ("has no log any more" if span.is_gone else f"begins with offset {span.oldest}")
            + f". The oldest cursor that is available is {oldest(spans)}"
        )
    return at


def compare(a: Cursor, b: Cursor, spans: Sequence[Span]) -> int:
    """-1, 0 or 1: a is before b, the same place, or after it."""
    changes = distance(a, b, spans)
    return (changes < 0) - (changes > 0)


def distance(a: Cursor, b: Cursor, spans: Sequence[Span]) -> int:
    """How many changes come after a, up to b; negative when b is before a. Changes that are gone count too."""
    return _position(b, spans) - _position(a, spans)


def shift(cursor: Cursor, n: int, spans: Sequence[Span]) -> Cursor:
    """
    The cursor n changes later (earlier when n is negative).

    It may be one that cannot be read from any more: `resolve` tells. Beyond the ends of the log is no place at all.
    """
    if type(n) is not int:
        raise Invalid(f"a cursor is shifted by an int, not by {n!r}")
    position = _position(cursor, spans)
    if not n:
        return cursor
    rest = position + n
    if rest < 0:
        raise CursorUnavailable(
            f"{cursor} cannot be shifted by {n}: only {position} changes are before it. "
            f"The oldest cursor that is available is {oldest(spans)}"
        )
    for index, span in enumerate(spans):
        if rest <= span.last + 1:
            return _rolled(index, rest - 1, spans)
        rest -= span.last + 1
    raise CursorUnavailable(
        f"{cursor} cannot be shifted by {n}: only {lag(cursor, spans)} changes are after it. "
        f"The newest cursor is {newest(spans)}, the oldest that is available {oldest(spans)}"
    )


def lag(cursor: Cursor, spans: Sequence[Span]) -> int:
    """How many changes come after a cursor, those that are gone among them."""
    return distance(cursor, newest(spans), spans)


def oldest(spans: Sequence[Span]) -> Cursor:
    """The oldest cursor from which everything can be read to the end (P5)."""
    _check_any(spans)
    # Found from the end, so that a generation that was lost in the middle does not send a reader into it again and again.
    index = len(spans) - 1
    while index and spans[index].readable_from <= 0:
        index -= 1
    return _rolled(index, max(spans[index].readable_from, 0) - 1, spans)


def newest(spans: Sequence[Span]) -> Cursor:
    """The cursor after which nothing has happened yet."""
    _check_any(spans)
    return Cursor(spans[-1].order, spans[-1].last)


def _rolled(index: int, offset: int, spans: Sequence[Span]) -> Cursor:
    while offset == spans[index].last and spans[index].is_closed and index + 1 < len(spans):
        index, offset = index + 1, -1
    return Cursor(spans[index].order, offset)


def _position(cursor: Cursor, spans: Sequence[Span]) -> int:
    """How many changes are before this place."""
    return sum(span.last + 1 for span in spans[: _index(cursor, spans)]) + cursor.offset + 1


def _index(cursor: object, spans: Sequence[Span]) -> int:
    """The span that a cursor is in; refused when there is no such place."""
    if not isinstance(cursor, Cursor) or not all(type(part) is int for part in cursor):
        raise Invalid(f"expected a journal.Cursor, got {cursor!r}: Cursor.parse makes one from a text")
    if cursor.offset < -1:
        raise Invalid(f"the cursor {tuple(cursor)} has offset {cursor.offset}: offsets begin with -1, before the first")
    _check_any(spans)
    index = bisect_left(spans, cursor.order, key=attrgetter("order"))
    if index == len(spans) or spans[index].order != cursor.order:
        raise CursorUnavailable(
            f"{cursor} is in generation {cursor.order}, which is not known: they are {spans[0].order} to "
            f"{spans[-1].order}. The oldest cursor that is available is {oldest(spans)}"
        )
    if cursor.offset > spans[index].last:
        raise CursorUnavailable(
            f"there is no change {cursor}: generation {cursor.order} ends with offset {spans[index].last}. "
            f"The oldest cursor that is available is {oldest(spans)}, the newest {newest(spans)}"
        )
    return index


def _check_any(spans: Sequence[Span]) -> None:
    if not spans:
        raise Invalid("there are no spans: a journal has at least one generation, give all that it ever had")
