"""
Non-blocking feed, for threads that serve sockets: `take()` returns what is available; a callback signals when to call again.

F1  `take` waits for nothing. What it gives is delivered, as by iterating; what it does not give, although it was read, is not.
F2  The callback comes once, on any thread, after a `take` that has left nothing, and again after the next one. It may come without news.
F3  Opening it may take long: a new consumer is written to disk, and its copy is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import length_hint

from journal.core.log.events import Event
from journal.engine.feed.feed import Feed
from journal.errors import Invalid, Unacknowledged
from journal.shield import Latch

LARGE_BYTES = 4 << 20
"""A record with more bytes, of a load, takes as long to read as it takes: `read_large` does that, on another thread."""
BLOCKS = 1
"""Read at a time from a log that other journals share: some milliseconds, also when none of it is for this feed."""


class _News(Latch):
    """A follower's latch that calls back when it is set."""

    def __init__(self, callback: Callable[[], None]) -> None:
        super().__init__()
        self._callback = callback

    def set(self) -> None:
        super().set()
        self._callback()


class PolledFeed:
    """A feed that is polled. For one thread at a time; closing, acknowledging and failing on any thread."""

    def __init__(self, feed: Feed, callback: Callable[[], None]) -> None:
        """The feed must not wait for acknowledgements (wait_acks=False); no other code may iterate it."""
        self.feed = feed
        self.is_over = False
        """There will be no more: all was delivered of a feed that is not live, or the feed or its store was closed."""
        self.is_large = False
        """The last `take` has ended before a record that `read_large` must read, which it has not called back for."""
        feed._tail.large_bytes = LARGE_BYTES
        self._news = feed._news = _News(callback)
        feed._blocks = BLOCKS
        p = feed._p
        if feed._consumer is not None and feed._consumer.is_copying:
            feed._begin_copy()
        with p.lock:
            p.followers = (*p.followers, self._news)

    def take(self, n: int, room: int, size: Callable[[Event], int]) -> list[Event]:
        """
        Up to `n` of the events that are there, whose sizes together fit into `room`.

        Unacknowledged, as the iteration, when there is none because of what is not acknowledged; Invalid when the first one does not fit.
        """
        feed = self.feed
        found: list[Event] = []
        left = room
        self.is_over = self.is_large = False
        self._news.clear()
        feed._is_busy = True
        try:
            while len(found) < n and self._goes_on(bool(found)):
                for event in feed._page:
                    left -= size(event)
                    if left < 0:
                        feed._page = iter([event, *feed._page])
                        if not found:
                            raise _too_large(event, size(event), room)
                        return found
                    feed._last = event
                    found.append(event)
                    if len(found) == n or feed._is_called:
                        break
        finally:
            feed._is_busy = False
        return found

    def read_large(self) -> None:
        """Read what the last `take` has ended before (`is_large`), on any thread, while no other one takes."""
        feed = self.feed
        feed._is_busy = True
        try:
            feed._tail.read_large()
        finally:
            feed._is_busy = False

    def _goes_on(self, has_some: bool) -> bool:
        """Whether there is something to deliver now, in the feed's page."""
        feed = self.feed
        while True:
            if (feed._is_called or feed._p.trouble is not None) and feed._attend():
                self.is_over = True
                return False
            if length_hint(feed._page):
                return True
            try:
                page = feed._take()
            except Unacknowledged:
                if has_some:
                    return False
                raise
            if page:
                feed._page = iter(page)
            elif feed._tail.is_large:
                self.is_large = True
                return False
            elif feed._tail.is_cut:
                self._news.set()  # to be polled again, after other feeds had their turn
                return False
            elif not feed._ready and not feed._is_called:
                self.is_over = not feed._is_live
                return False

    def close(self) -> None:
        """End it, and write what was acknowledged; this may take long. Closing twice is fine."""
        p = self.feed._p
        with p.lock:
            p.followers = tuple(each for each in p.followers if each is not self._news)
        self.feed.close()


def _too_large(event: Event, size: int, room: int) -> Invalid:
    return Invalid(
        f"the change at {event.cursor}, of the entry {event.key!r}, has {size} bytes, and {room} can be handed over: follow in the process "
        "that has the store, or pass over it (skip_feed)"
    )
