"""
Feeds over the wire: one that is open, for a connection.

Events are the bytes that the log has (journal.net.wire.values): the daemon does not look into them.

O1  Opening, closing and reading a large record may wait for the disk: on a thread that may. All else waits for nothing.
O2  What `next` and `ready` give together fits into a frame.
O3  A feed that waits for acknowledgements calls back when they have come, as it does for new changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from journal.api.backend import FeedOptions
from journal.core.log.acks import UNACKED_MAX
from journal.core.log.cursor import Cursor
from journal.core.log.events import Event
from journal.core.requests.follow import FeedOpenRequest
from journal.engine.feed.consumer import FLUSH_MS
from journal.errors import JournalError, Unacknowledged
from journal.net.server.verbs.frame_sizes import text_bytes
from journal.net.server.verbs.served_journal import Served
from journal.net.wire.auth import Grant
from journal.net.wire.values import cursor_to, event_to

log = logging.getLogger("journal.daemon")

EVENT_BYTES = 160
"""What the columns of fixed width and the heads of all take at most."""


def event_bytes(event: Event) -> int:
    """What an event takes in a frame, at most."""
    where, _, _, _, primary, value, more = event
    key, _, _, consumer, _, _, reason, flag, old = more
    size = EVENT_BYTES + len(where[3]) + len(primary or b"") + len(value or b"") + len(old or b"")
    return size + text_bytes(key) + text_bytes(consumer) + text_bytes(reason) + text_bytes(flag)


class OpenFeed:
    """A feed of one connection. One thread at a time; the callback comes on any."""

    def __init__(self, served: Served, given: dict[str, Any], grant: Grant) -> None:
        """FEED_OPEN; it may take long (O1)."""
        asked: Any = FeedOpenRequest.command.from_wire(given)
        options = FeedOptions(
            asked.consumer,
            "BEGIN" if asked.start is None else asked.start,
            live=asked.live is not False,
            copy=asked.copy or False,
            flush_ms=FLUSH_MS if asked.flush is None else asked.flush,
            unacked_max=UNACKED_MAX if asked.unacked_max is None else asked.unacked_max,
            wait_acks=False,
        )
        feed = served.journal.feed(options)
        self._room = served.room
        self._callback: Callable[[], None] = lambda: None
        self._is_held = False
        """It gave nothing because of what is not acknowledged (O3)."""
        try:
            feed.poll(lambda: self._callback())
        except BaseException:
            feed.close()
            raise
        self._feed = feed
        blank = served.p.generations.blank
        self.blank: dict[str, Any] | None = None if blank is None else dict(blank)
        """None for each field of the journal's schemas, for readers of the events."""

    def on_news(self, callback: Callable[[], None]) -> None:
        """Call back when there may be more, now for the first time; on any thread, under locks: it must be done in a moment."""
        self._callback = callback
        callback()

    @property
    def position(self) -> list[int]:
        """The cursor up to which all is acknowledged; without a consumer: that was delivered."""
        return cursor_to(self._feed.position)

    @property
    def again(self) -> list[int]:
        """Up to here changes are delivered again, each one when the one before it is acknowledged."""
        return cursor_to(self._feed.again)

    @property
    def is_large(self) -> bool:
        """Whether a record comes next that `read_large` must read first."""
        return self._feed.is_large

    def read_large(self) -> None:
        """Read a large record; it may take long (O1). The next read raises what failed."""
        try:
            self._feed.read_large()
        except (JournalError, OSError) as e:
            log.warning("feed_read_failed error=%s", e)

    def next(self, n: int) -> tuple[list[Any], bool]:
        """FEED_NEXT: the events that are there, up to n, and whether it was the end; Unacknowledged as in the library."""
        events = self._feed.take(n, self._room, event_bytes)
        return [event_to(event) for event in events], self._feed.is_over

    def ready(self, n: int) -> tuple[list[Any], bool]:
        """The same to be pushed: none while something must be acknowledged first."""
        try:
            self._is_held = False
            return self.next(n)
        except Unacknowledged:
            self._is_held = True
            return [], False

    def ack(self, cursors: list[list[int]]) -> dict[str, Any]:
        """FEED_ACK."""
        self._feed.ack([Cursor(*cursor) for cursor in cursors])
        if self._is_held:
            self._callback()
        return {"position": self.position, "unacked": self._feed.unacked}

    def fail(self, cursors: list[list[int]] | None) -> None:
        """FEED_FAIL."""
        self._feed.fail([Cursor(*cursor) for cursor in cursors or ()])

    def close(self) -> None:
        """FEED_CLOSE, or the end of the connection; it may take long (O1). Closing twice is fine."""
        self._feed.close()
