"""
The log of a journal, or of all merged ones together, as programs see it: its generations, its cursors, its feed consumers.

A named feed consumer holds the log until it has acknowledged it: if one never returns, the log grows for ever. So they are listed, with
what each of them holds, and can be moved on or removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Self, TypeVar

from journal.api.backend import Feed, FeedOptions, LogBackend
from journal.core.arguments import consumer_name
from journal.core.log.acks import UNACKED_MAX
from journal.core.log.cursor import Cursor
from journal.core.log.events import Event
from journal.core.requests.follow import (
    ChangesRequest,
    FeedMarkRequest,
    FeedRemoveRequest,
    FeedSkipRequest,
    FeedsRequest,
)
from journal.core.requests.operate import CompactRequest, RotateRequest
from journal.core.requests.read import (
    DistanceRequest,
    GenerationsRequest,
    LagRequest,
    OldestCursorRequest,
    ShiftRequest,
)
from journal.core.settings import Settings
from journal.core.times import DurationLike, duration_ms
from journal.core.values import Compacted, FeedView, Generation
from journal.errors import Invalid

B = TypeVar("B", bound=LogBackend)


class Log(Generic[B]):
    """What a journal and all merged journals together have: a log."""

    def __init__(self, backend: B) -> None:
        self._backend = backend
        self._call = backend.call
        self.name = backend.name

    @property
    def settings(self) -> Settings:
        """How it behaves. Of all merged journals only the settings that they have together count."""
        return self._backend.settings

    @property
    def is_remote(self) -> bool:
        """Whether it is reached through a daemon."""
        return self._backend.is_remote

    def within(self, timeout: DurationLike | None) -> Self:
        """
        The same, with another time in which a daemon must answer a call; None: as long as it is there. A store in this process answers
        when its disk does.
        """
        return type(self)(self._backend.within(None if timeout is None else duration_ms(timeout, "timeout")))

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
        are written every `flush`. unacked_max: after so many changes that are not acknowledged the feed raises Unacknowledged, or with
        wait_acks waits for acknowledgements of other threads. Over a connection it is 16,384 at most, and some changes are on their
        way before they are asked for: those that were not handed out when the feed ended count as delivered.
        """
        if type(unacked_max) is not int or unacked_max < 1:
            raise Invalid(f"unacked_max is {unacked_max!r}: it must be an int of at least 1")
        if not isinstance(start, Cursor) and start not in ("BEGIN", "END"):
            raise Invalid(
                f"start is {start!r}: it must be 'BEGIN', 'END' or a journal.Cursor (Cursor.parse makes one of a text)"
            )
        flush_ms = duration_ms(flush, "flush")
        if copy and (consumer is None or start != "BEGIN"):
            raise Invalid("a copy needs a consumer's name, and takes the entries that are there: leave start out")
        if consumer is not None and not consumer_name(consumer):
            raise Invalid("a feed consumer has a name of at least one character")
        return self._backend.feed(FeedOptions(consumer, start, live, copy, flush_ms, unacked_max, wait_acks))

    def changes(self, after: Cursor, until: Cursor) -> Iterator[Event]:
        """
        The changes after one cursor, up to and with that of another, without a consumer: again and again the same.

        CursorUnavailable when they are gone; a feed consumer that stands at `after`, or before it, keeps them.
        """
        asked = ChangesRequest.of(after=after, until=until)
        return self._backend.changes(asked.after, asked.until)

    @property
    def oldest_cursor(self) -> Cursor:
        """The oldest cursor from which all changes can be read; the one before the first that is left."""
        return self._call(OldestCursorRequest())

    def feeds(self) -> list[FeedView]:
        """The feed consumers, by name."""
        return self._call(FeedsRequest())

    def remove_feed(self, consumer: str) -> None:
        """Remove a feed consumer; what only it held of the log is freed."""
        self._call(FeedRemoveRequest.of(consumer=consumer))

    def mark_feed(self, consumer: str, cursor: Cursor) -> None:
        """Set a feed consumer's position: all up to the cursor counts as acknowledged, nothing after it does."""
        self._call(FeedMarkRequest.of(consumer=consumer, cursor=cursor))

    def skip_feed(self, consumer: str, cursor: Cursor) -> bool:
        """
        Acknowledge one change for a feed consumer without delivering it; False when it was acknowledged before.

        It counts as delivered, and so does all before it: what of that is not acknowledged comes one at a time.
        """
        return self._call(FeedSkipRequest.of(consumer=consumer, cursor=cursor))

    def generations(self) -> list[Generation]:
        """The periods, oldest first, with what keeps each."""
        return self._call(GenerationsRequest())

    def rotate(self) -> Generation:
        """Begin a new generation now; the active one."""
        return self._call(RotateRequest())

    def compact(self) -> Compacted:
        """Compact the log now, up to what feed consumers hold, instead of when there is more to gain."""
        return self._call(CompactRequest())

    def distance(self, a: Cursor, b: Cursor) -> int:
        """How many changes come after `a`, up to `b`; negative when `b` is before `a`. Gone generations count too."""
        return self._call(DistanceRequest.of(a=a, b=b))

    def shift(self, cursor: Cursor, n: int) -> Cursor:
        """The cursor `n` changes later, or earlier when `n` is negative."""
        return self._call(ShiftRequest.of(cursor=cursor, n=n))

    def lag(self, cursor: Cursor) -> int:
        """How many changes come after a cursor."""
        return self._call(LagRequest.of(cursor=cursor))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._backend}>"


class MergedJournals(Log[LogBackend]):
    """The generations, the log and the settings that merged journals share; its feed has the changes of all of them."""

    def statistics(self) -> dict[str, Any]:
        """Counters and sizes of what is shared."""
        return self._backend.statistics()

    def counts(self) -> dict[str, int]:
        """How many entries each journal has; those that have none are left out. None of them is opened for it."""
        return self._backend.counts()
