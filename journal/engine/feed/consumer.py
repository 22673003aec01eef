"""
One named feed consumer, and the consumers of a journal as a feed sees them. What is kept of all of them: journal.engine.feed.consumers.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from journal.core.log.acks import Acks
from journal.core.log.cursor import Cursor
from journal.core.log.cursor_math import Span, lag, newest, oldest, resolve
from journal.core.values import FeedView
from journal.engine.feed.log_tail import FollowedJournal, spans_of
from journal.engine.feed.offset_log import COPY, SYNC, KeptConsumer
from journal.errors import Invalid

if TYPE_CHECKING:
    from journal.engine.feed.feed import EngineFeed

FLUSH_MS = 1000


class FeedConsumer:
    """One named consumer."""

    def __init__(self, name: str, acks: Acks, mode: int = SYNC) -> None:
        self.name = name
        self.acks = acks
        self.start = acks.position
        """While it copies: the place in the log that is held for it."""
        self.held = acks.position
        """Its position as the offset log has it (consumers H1)."""
        self.is_copying = mode == COPY
        self.is_dirty = False
        self.flush_ms = FLUSH_MS
        self.feed: weakref.ref[EngineFeed] | None = None
        """The open feed of this consumer; one that was garbage-collected counts as closed."""

    def kept(self) -> KeptConsumer:
        """What the offset log shall keep; under the consumers' lock."""
        if (feed := self.open_feed) is not None:
            feed.note()
        if self.is_copying:
            return KeptConsumer(self.name, COPY, self.start, self.start)
        return KeptConsumer(self.name, SYNC, self.acks.position, self.acks.high, self.acks.runs())

    @property
    def position(self) -> Cursor:
        """Where it stands in the log."""
        return self.start if self.is_copying else self.acks.position

    def lag(self, spans: list[Span]) -> int:
        """How many changes it has not acknowledged; under the consumers' lock."""
        if self.position >= newest(spans):
            return 0  # it has seen what was shown when no sync was awaited
        return lag(self.position, spans) - (0 if self.is_copying else self.acks.above)

    @property
    def open_feed(self) -> EngineFeed | None:
        """The feed that is open on it."""
        feed = self.feed() if self.feed is not None else None
        return None if feed is None or feed.is_closed else feed


class Consumers(Protocol):
    """The named consumers of a journal that has its log for itself, or shares it."""

    @property
    def lock(self) -> threading.Lock: ...
    @property
    def known(self) -> dict[str, FeedConsumer]: ...
    @property
    def directory(self) -> Path: ...
    @property
    def is_closed(self) -> bool: ...
    def look(self) -> None: ...
    def touched(self, consumer: FeedConsumer) -> None: ...
    def flush(self) -> None: ...
    def attach(
        self, name: str, start: str | Cursor, *, is_copy: bool, make: Callable[[FeedConsumer], EngineFeed]
    ) -> EngineFeed: ...
    def remove(self, name: str) -> None: ...
    def mark(self, name: str, cursor: Cursor) -> None: ...
    def skip(self, name: str, cursor: Cursor) -> bool: ...
    def views(self) -> list[FeedView]: ...


def check_start(start: str | Cursor) -> None:
    """Refuse what says no place to begin, whether it counts or not."""
    if not isinstance(start, Cursor) and start not in ("BEGIN", "END"):
        raise Invalid(
            f"start is {start!r}: it must be 'BEGIN', 'END' or a journal.Cursor (Cursor.parse makes one of a text)"
        )


def start_of(p: FollowedJournal, start: str | Cursor) -> Cursor:
    """The cursor to read after; under the pipeline's lock."""
    check_start(start)
    spans = spans_of(p)
    end = p.log.end
    spans[-1] = spans[-1]._replace(last=max(spans[-1].last, end.offset - 1))
    if isinstance(start, Cursor):
        return resolve(start, spans)
    return oldest(spans) if start == "BEGIN" else newest(spans)
