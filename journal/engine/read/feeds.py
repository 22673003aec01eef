"""
The following side of a journal: feeds over its log, and their consumers as an operator sees them.

A named consumer holds the log until it has acknowledged it: if one never returns, the log grows for ever. So they are
listed, with what each of them holds, and can be moved on or removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from journal.core.log.cursor import Cursor
from journal.core.log.events import Event
from journal.core.times import DurationLike, duration_ms
from journal.engine.arguments import consumer_name
from journal.engine.feed.changes import changes, check_life, first_cursor
from journal.engine.feed.consumers import Consumer, Consumers, FeedView, check_start, start_of
from journal.engine.feed.feed import UNACKED_MAX, Feed
from journal.engine.work.lookup import Side
from journal.errors import Invalid, ReadOnly
from journal.shield import shielded


@shielded
class Following(Side):
    """Reading what happened."""

    _given: Any = None
    """What a daemon that serves it keeps of changes that it has given in part."""

    def feed(
        self,
        *,
        consumer: str | None = None,
        start: str | Cursor = "BEGIN",
        live: bool = True,
        copy: bool = False,
        flush: DurationLike = "1s",
        unacked_max: int = UNACKED_MAX,
        wait_acks: bool = False,
    ) -> Feed:
        """
        Every change in order, as events; from the beginning, the end, or after a cursor.

        A `consumer` is remembered: the log is held for it, and it goes on where it has acknowledged everything. `start`
        and `copy` count when it is new. live: wait for more; otherwise end when all that is there was delivered. copy:
        first all existing entries, then an event with mode "complete", then what has changed since. Acknowledgements
        are written every `flush`. unacked_max, wait_acks: see journal.engine.feed.feed.
        """
        p = self._p
        if p.trouble is not None:
            raise p.trouble
        if type(unacked_max) is not int or unacked_max < 1:
            raise Invalid(f"unacked_max is {unacked_max!r}: it must be an int of at least 1")
        check_start(start)
        flush_ms = duration_ms(flush, "flush")
        if not p.is_writable and (consumer is not None or live):
            raise ReadOnly(
                "the store was opened with readonly=True: only a feed with live=False and without a consumer is possible"
            )
        if copy and (consumer is None or start != "BEGIN"):
            raise Invalid("a copy needs a consumer's name, and takes the entries that are there: leave start out")

        consumers = self._all_consumers()

        def make(known: Consumer | None, after: Cursor) -> Feed:
            return Feed(
                p, consumers, known, after, is_live=live, unacked_max=unacked_max, is_waiting=wait_acks
            )  # fmt: skip

        if consumer is None:
            check_life(p, start)
            with p.lock:
                return make(None, start_of(p, start))

        def open_known(known: Consumer) -> Feed:
            known.flush_ms = flush_ms
            return make(known, known.acks.position)

        return consumers.attach(_named(consumer), "END" if copy else start, is_copy=copy, make=open_known)

    def changes(self, after: Cursor, until: Cursor) -> Iterator[Event]:
        """
        The changes after one cursor, up to and with that of another, without a consumer: again and again the same.

        CursorUnavailable when they are gone; a feed consumer that stands at `after`, or before it, keeps them.
        """
        return changes(self._p, after, until)

    @property
    def oldest_cursor(self) -> Cursor:
        """The oldest cursor from which all changes can be read; the one before the first that is left."""
        return first_cursor(self._p)

    def feeds(self) -> list[FeedView]:
        """The feed consumers of this journal, by name."""
        return self._consumers().views()

    def remove_feed(self, consumer: str) -> None:
        """Remove a feed consumer; what only it held of the log is freed."""
        self._writable().remove(_named(consumer))

    def mark_feed(self, consumer: str, cursor: Cursor) -> None:
        """Set a feed consumer's position: all up to the cursor counts as acknowledged, nothing after it does."""
        self._writable().mark(_named(consumer), cursor)

    def skip_feed(self, consumer: str, cursor: Cursor) -> bool:
        """
        Acknowledge one change for a feed consumer without delivering it; False when it was acknowledged before.

        It counts as delivered, and so does all before it: what of that is not acknowledged comes one at a time.
        """
        return self._writable().skip(_named(consumer), cursor)

    def _writable(self) -> Consumers:
        p = self._p
        if not p.is_writable:
            raise ReadOnly("the store was opened with readonly=True: only its owner changes feed consumers")
        return self._consumers()

    def _consumers(self) -> Consumers:
        p = self._p
        if p.trouble is not None:
            raise p.trouble
        consumers = self._all_consumers()
        if not p.is_writable:
            consumers.look()
        return consumers

    def _all_consumers(self) -> Consumers:
        return self._p.consumers


def _named(consumer: str) -> str:
    if not consumer_name(consumer):
        raise Invalid("a feed consumer has a name of at least one character")
    return consumer
