"""
The changes between two cursors. No position is stored: several readers can read them at once, in parts, and any number of times.

A feed consumer whose position is before them holds the log; without one they may be removed, also while they are read.

W1  The same two cursors give the same changes, as long as they are there. CursorUnavailable when they are not: before the
    first one is given, or in the middle.
W2  Nothing is given that could still vanish (log_tail U1): a cursor beyond what a follower may see is no place yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from journal.core.log.cursor import Cursor
from journal.core.log.cursor_math import distance, oldest, resolve
from journal.core.log.events import Event
from journal.engine.feed.log_tail import FollowedJournal, Tail, spans_of
from journal.errors import CursorUnavailable, Invalid
from journal.shield import SHIELD

BLOCKS = 16
"""Blocks of other journals' changes that are read before it is looked whether the end is reached: 4 MiB."""


def changes(p: FollowedJournal, after: Cursor, until: Cursor) -> Iterator[Event]:
    """The changes after one cursor, up to and with that of another."""
    check_life(p, after)
    with p.lock:
        spans = spans_of(p)
    count = distance(after, until, spans)
    if count < 0:
        raise Invalid(f"{after} is {-count} changes behind {until}: give the earlier cursor first")
    return _read(Tail(p, resolve(after, spans)), until) if count else iter(())


def first_cursor(p: FollowedJournal) -> Cursor:
    """The oldest cursor whose changes can all be read."""
    with p.lock:
        return max(oldest(spans_of(p)), Cursor(p.generations.first, -1))


def check_life(p: FollowedJournal, cursor: object) -> None:
    """Refuses a cursor from before a merged journal was declared: what is gone since then is not in its changes (former_names N2)."""
    first = p.generations.first
    if isinstance(cursor, Cursor) and type(cursor.order) is int and cursor.order < first:
        raise CursorUnavailable(
            f"{cursor} is from before journal {p.name} was declared, in generation {first}: it is one of a journal "
            f"that was dropped, or of another. The oldest cursor that is available is {first_cursor(p)}"
        )


def _read(tail: Tail, until: Cursor) -> Iterator[Event]:
    try:
        while tail.at < until:
            with SHIELD:
                events = tail.page(BLOCKS)
            if not events and not tail.is_cut:
                return  # `until` is where a generation ends
            tail.passed.clear()
            tail.crossed.clear()
            if events and events[-1].cursor > until:
                yield from takewhile(lambda event: event.cursor <= until, events)
                return
            yield from events
    finally:
        tail.close()
