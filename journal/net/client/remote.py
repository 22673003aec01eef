"""Something that a daemon keeps, and that is asked about over one connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self, TypeVar

from journal.core.log.cursor import Cursor
from journal.core.log.events import Event
from journal.core.times import DurationLike, duration_ms
from journal.errors import JournalError
from journal.net.client.calls import feeds as calls_feeds
from journal.net.client.calls.call import Call, Steps
from journal.net.client.calls.signatures import asked, walked
from journal.net.client.connection.heartbeat import Heart
from journal.net.client.feed import RemoteFeed
from journal.net.client.feed_state import UNACKED_MAX, Followed

R = TypeVar("R")


class Remote:
    """An object that sends calls to a daemon."""

    def __init__(self, heart: Heart, timeout_ms: int | None) -> None:
        self._heart = heart
        self._link = heart.link
        self._timeout_ms = timeout_ms

    def _ask(self, call: Call[R]) -> R:
        return call.read(self._link.ask(call, None if call.is_slow else self._timeout_ms))

    def _walk(self, steps: Steps[R]) -> R:
        try:
            call = next(steps)
            while True:
                try:
                    answer = self._ask(call)
                except JournalError as e:
                    call = steps.throw(e)  # it may have something to return all the same
                else:
                    call = steps.send(answer)
        except StopIteration as e:
            result: R = e.value
            return result

    def within(self, timeout: DurationLike | None) -> Self:
        """The same, with another time in which a call must be answered; None: as long as the daemon is there."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._timeout_ms = None if timeout is None else duration_ms(timeout, "timeout")
        return other


class RemoteLog(Remote):
    """The log of a journal, or of all merged ones: its generations, its cursors, and its feed consumers."""

    def __init__(self, heart: Heart, name: str, timeout_ms: int | None) -> None:
        super().__init__(heart, timeout_ms)
        self.name = name

    feeds = walked(calls_feeds.feeds)
    remove_feed = asked(calls_feeds.remove_feed)
    mark_feed = asked(calls_feeds.mark_feed)
    skip_feed = asked(calls_feeds.skip_feed)
    generations = asked(calls_feeds.generations)
    rotate = asked(calls_feeds.rotate)
    compact = asked(calls_feeds.compact)
    distance = asked(calls_feeds.distance)
    shift = asked(calls_feeds.shift)
    lag = asked(calls_feeds.lag)

    def changes(self, after: Cursor, until: Cursor) -> Iterator[Event]:
        """
        The changes after one cursor, up to and with that of another, without a consumer: again and again the same.

        CursorUnavailable when they are gone; a feed consumer that stands at `after`, or before it, keeps them.
        """
        return self._changes(self._ask(calls_feeds.changes(self.name, after, until)), until)

    def _changes(self, part: calls_feeds.Part, until: Cursor) -> Iterator[Event]:
        yield from part.events
        while part.after is not None:
            part = self._ask(calls_feeds.changes(self.name, part.after, until))
            yield from part.events

    @property
    def oldest_cursor(self) -> Cursor:
        """The oldest cursor from which all changes can be read; the one before the first that is left."""
        return self._ask(calls_feeds.oldest_cursor(self.name))

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
    ) -> RemoteFeed:
        """
        Every change in order, as events; from the beginning, the end, or after a cursor.

        A `consumer` is remembered: the log is held for it, and it goes on where it has acknowledged everything. `start`
        and `copy` count when it is new. live: wait for more; otherwise end when all that is there was delivered. copy:
        first all existing entries, then an event with mode "complete", then what has changed since. Acknowledgements
        are written every `flush`. unacked_max (16,384 at most), wait_acks: see journal.engine.feed.feed.

        Some changes are on their way before they are asked for: those that were not handed out when the feed ended count as
        delivered.
        """
        followed = Followed(
            self.name, consumer=consumer, start=start, live=live, copy=copy, flush=flush, unacked_max=unacked_max,
            wait_acks=wait_acks,
        )  # fmt: skip
        return RemoteFeed(self, followed)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self._link.address}>"
