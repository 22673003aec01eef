"""
What one feed consumer has acknowledged: exact cursors, and the position below which nothing is missing.

    cursors     0   1   2   3   4   5   6   7   8
    acked       x   x   x       x   x       x
                        ^ position              ^ high (delivered up to here)
    runs                        4 … 5       7 … 7

Q1  `position` is the highest cursor up to which every change is acknowledged. What is acknowledged above it is kept as
    runs of cursors, so that one change that stays unacknowledged costs no memory for all that come after it.
Q2  An acknowledgement names one change and says nothing about any other, whatever came before or after it.
Q3  `high` is the highest cursor that was ever delivered or acknowledged: beyond it nothing can be acknowledged, and what
    is not acknowledged up to it is delivered again after a failure.
Q4  Within a generation the change after (order, n) is (order, n + 1). Where a generation ends is told by `cross`.
Q5  Changes that are not delivered at all (`pass_over`) count as acknowledged as soon as all before them was delivered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from journal.core.log.cursor import Cursor
from journal.errors import Invalid

Run = tuple[int, int, int]
"""Order, first offset, last offset."""
_new = tuple.__new__

UNACKED_MAX = 10_000
"""Changes of a feed that were delivered and are not acknowledged, unless its program says otherwise."""


class Acks:
    """The acknowledgements of one consumer; the caller sees to it that one thread at a time changes them."""

    __slots__ = ("_ends", "_gaps", "_starts", "edges", "high", "position")

    def __init__(self, position: Cursor, high: Cursor | None = None, runs: Iterable[Run] = ()) -> None:
        self.position = position
        self._starts: list[Cursor] = []
        self._ends: list[Cursor] = []
        self._gaps: list[Run] = []
        """Runs that will not be delivered, behind what was (Q5)."""
        self.edges: dict[Cursor, Cursor] = {}
        """The last cursor of a generation that ended, and the one before the first of the next."""
        for order, first, last in sorted(runs):
            if first <= last and Cursor(order, last) > position:
                self._starts.append(max(Cursor(order, first), Cursor(position.order, position.offset + 1)))
                self._ends.append(Cursor(order, last))
        self.high = max(position, high or position, *self._ends[-1:])
        self._absorb()

    def check(self, cursor: Cursor) -> None:
        """Refuse what cannot be acknowledged (Q3)."""
        if cursor > self.high:
            raise Invalid(
                f"{cursor} was never delivered, so it cannot be acknowledged: the last one that was is {self.high}"
            )

    def ack(self, cursor: Cursor) -> bool:
        """Take an acknowledgement that was checked; whether it was a new one (Q2)."""
        order, offset = self.position
        if cursor <= self.position:
            return False
        if cursor[1] == offset + 1 and cursor[0] == order:
            self.position = cursor
            if self._starts or self.edges:
                self._absorb()
            return True
        return self._add(cursor)

    def ack_run(self, order: int, first: int, last: int) -> None:
        """The same for all changes from one to another of a generation; the last one was checked."""
        if self.position == (order, first - 1) and not self._starts:
            self.position = _new(Cursor, (order, last))
            if self.edges:
                self._absorb()
        else:
            for offset in range(first, last + 1):
                self.ack(_new(Cursor, (order, offset)))

    def _add(self, cursor: Cursor) -> bool:
        """Acknowledge one above the position: a run of its own, or a part of its neighbours."""
        starts, ends = self._starts, self._ends
        at = bisect_right(starts, cursor)
        if at and cursor <= ends[at - 1]:
            return False
        order, offset = cursor
        is_after = at > 0 and ends[at - 1] == (order, offset - 1)
        is_before = at < len(starts) and starts[at] == (order, offset + 1)
        if is_after and is_before:
            ends[at - 1] = ends.pop(at)
            starts.pop(at)
        elif is_after:
            ends[at - 1] = cursor
        elif is_before:
            starts[at] = cursor
        else:
            starts.insert(at, cursor)
            ends.insert(at, cursor)
        return True

    def skip(self, cursor: Cursor) -> bool:
        """Acknowledge a change although it was not delivered."""
        self.high = max(self.high, cursor)
        return self.ack(cursor)

    def has(self, cursor: Cursor) -> bool:
        """Whether a change is acknowledged."""
        if cursor <= self.position:
            return True
        at = bisect_right(self._starts, cursor)
        return at > 0 and cursor <= self._ends[at - 1]

    def cross(self, last: Cursor, before: Cursor) -> None:
        """A generation ended with `last`; the next change is the first after `before` (Q4)."""
        if last != before and last >= self.position:
            self.edges[last] = before
            self._absorb()

    def delivered(self, cursor: Cursor) -> None:
        """All up to this cursor was delivered (Q3, Q5)."""
        if cursor > self.high:
            self.high = cursor
        if self._gaps:
            self._close_gaps()

    def pass_over(self, order: int, first: int, last: int) -> None:
        """These changes will not be delivered; told in order, each before what comes after it."""
        self._gaps.append((order, first, last))

    def rewind(self) -> None:
        """What is behind the position will be read again, and gaps be told again."""
        self._gaps.clear()

    def _close_gaps(self) -> None:
        while self._gaps:
            order, first, last = self._gaps[0]
            before = self.edges.get(self.high, self.high)
            if before < (order, first - 1):
                return
            self._gaps.pop(0)
            if not self.has(_new(Cursor, (order, last))):
                self._add_run(order, first, last)
                self._absorb()
            self.high = max(self.high, Cursor(order, last))

    def _add_run(self, order: int, first: int, last: int) -> None:
        """Acknowledge a run whose last change is not acknowledged; parts of it may be."""
        start, end = (
            max(Cursor(order, first), Cursor(self.position.order, self.position.offset + 1)),
            Cursor(order, last),
        )
        at = bisect_right(self._ends, _new(Cursor, (start.order, start.offset - 2)))
        upto = bisect_right(self._starts, _new(Cursor, (order, last + 1)))
        if at < upto:
            start, end = min(start, self._starts[at]), max(end, self._ends[upto - 1])
        self._starts[at:upto], self._ends[at:upto] = [start], [end]

    @property
    def unacked(self) -> int:
        """How many changes up to `high` are not acknowledged."""
        at, changes = self.position, 0
        for last, before in sorted(self.edges.items()):
            if at.order == last.order < self.high.order:
                changes += last.offset - at.offset
                at = before
        return changes + self.high.offset - at.offset - self.above

    @property
    def above(self) -> int:
        """How many changes above the position are acknowledged."""
        return sum(end[1] - start[1] + 1 for start, end in zip(self._starts, self._ends, strict=True))

    def runs(self) -> tuple[Run, ...]:
        """What is acknowledged above the position, in order."""
        return tuple((start[0], start[1], end[1]) for start, end in zip(self._starts, self._ends, strict=True))

    def _absorb(self) -> None:
        """Move the position over what is acknowledged already (Q1)."""
        position, starts, ends = self.position, self._starts, self._ends
        while True:
            following: Cursor = _new(Cursor, (position.order, position.offset + 1))
            if starts and starts[0] == following:
                starts.pop(0)
                position = ends.pop(0)
            elif position in self.edges:
                position = self.edges.pop(position)
            elif ends and ends[0] <= position:
                # Named in a generation that has ended, behind its last change: there is no such change.
                starts.pop(0)
                ends.pop(0)
            else:
                break
        self.position = position
        if position > self.high:
            self.high = position
