"""
The feed consumers of one journal: what they have acknowledged, when that is written, and what they hold of the log.

H1  A named consumer holds the log from the change after its position on, also before its feed is opened. What counts
    is the position that is durable in the offset log: what a power cut takes back must still be there to be read.
H2  Acknowledgements are written by the keeper, not later than `flush` after they came, whatever other feeds set, and on
    close; the log up to them is made durable before, so that the offset log never names a change that a power cut has taken.
H3  `lock` guards what is acknowledged and is held for moments. `_writing` is held while the offset log is written. The
    pipeline's lock is never taken under `lock`, nor the keeper called under either.
H4  `_opening` is held while a feed is opened, and while a consumer is changed by hand: no feed has a consumer that was
    removed meanwhile, or acknowledgements that were replaced.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from journal.core.limits import NEVER
from journal.core.log.acks import Acks
from journal.core.log.cursor import Cursor, cursor_of, place_of
from journal.core.log.cursor_math import Span, oldest, roll_forward
from journal.core.settings import MERGED
from journal.core.values import FeedView
from journal.engine.feed.consumer import FeedConsumer, start_of
from journal.engine.feed.log_tail import FollowedJournal, kept_logs, spans_of
from journal.engine.feed.offset_log import COPY, SYNC, KeptConsumer, OffsetLog
from journal.engine.log.closed_logs import KeptLog
from journal.engine.log.group_commit import GroupCommit
from journal.engine.log.reader import list_segments, segment_path
from journal.engine.runtime.background import Alarm, Keeper
from journal.engine.runtime.clock import EngineTime
from journal.engine.state import commit_parts
from journal.errors import Invalid, JournalError, NotFound, Refused, StorageError, StoreDamaged

if TYPE_CHECKING:
    from journal.engine.feed.feed import EngineFeed

log = logging.getLogger("journal.consumers")

RETRY_MS = 1000
CONSUMERS_MAX = 10_000
RUNS_MAX = 10_000
"""Runs of cursors that may be acknowledged above a position by hand."""


class FollowedLog(FollowedJournal, Protocol):
    """A journal that keeps its log for its consumers."""

    def hold_log(self) -> None: ...
    def free_log(self) -> None: ...


class LogConsumers:
    """All named consumers that follow one log."""

    def __init__(
        self, p: FollowedLog, directory: Path, *, commit: GroupCommit, keeper: Keeper, time: EngineTime
    ) -> None:
        self.lock = threading.Lock()
        self.known: dict[str, FeedConsumer] = {}
        self.directory = directory
        self._p, self._log = p, p.log
        self._commit, self._keeper, self._time = commit, keeper, time
        self._offsets = OffsetLog(directory, p.name.encode())
        self._opening = threading.Lock()
        self._writing = threading.Lock()
        self._alarm = Alarm(keeper, self._flush_later)
        """Set to the earliest date when something is to be written, by the steady clock."""
        self.is_closed = False

    # -- opening and closing, on the keeper ---------------------------------------------------------------------------

    def load(self) -> None:
        """Read the offset log, and hold the log from here on (H1)."""
        self._take(self._offsets.load())
        for name, consumer in self.known.items():
            if place_of(consumer.acks.high) >= self._log.next_offset:
                end = cursor_of(self._log.next_offset - 1)
                raise StoreDamaged(
                    commit_parts.refusal(
                        f"{self.directory} says that {name!r} was given {consumer.acks.high}, the log ends with {end}"
                    )
                )
        with self._p.lock:
            self._p.hold_log()

    def look(self) -> None:
        """Read the offset log of a store that another process owns."""
        self._take(self._offsets.load(is_owner=False))

    def _take(self, found: list[KeptConsumer]) -> None:
        self.known = {
            kept.name: FeedConsumer(kept.name, Acks(kept.position, kept.high, kept.runs), kept.mode) for kept in found
        }

    def close(self) -> None:
        """Write what is acknowledged; nothing can be acknowledged any more."""
        with self.lock:
            self.is_closed = True
        try:
            self.flush()
        except JournalError as e:
            log.error("offsets_not_written journal=%s error=%s", self._p.name, e)

    def wake(self) -> None:
        """The journal failed or is closed: end all open feeds."""
        for consumer in self.known.values():
            if (feed := consumer.open_feed) is not None:
                feed.end()

    def abandon_after_fork(self) -> None:
        """In a forked child: the threads that held the locks do not exist here."""
        self.lock, self._opening, self._writing = threading.Lock(), threading.Lock(), threading.Lock()
        self.is_closed = True

    # -- writing ------------------------------------------------------------------------------------------------------

    def touched(self, consumer: FeedConsumer) -> None:
        """Something of a consumer is to be written soon; under `lock`."""
        consumer.is_dirty = True
        self._schedule(consumer.flush_ms)

    def _schedule(self, ms: int) -> None:
        """Write in so many milliseconds, or earlier if that was asked for."""
        at = int(monotonic() * 1000) + ms
        if at < self._alarm.at and not self.is_closed:
            self._alarm.set(at, ms / 1000)

    def flush(self) -> None:
        """Write what has changed (H2)."""
        with self._writing:
            self._write(())

    def _flush_later(self) -> None:
        if self.is_closed:
            return
        try:
            self.flush()
        except StorageError as e:
            log.warning("offsets_postponed journal=%s error=%s", self._p.name, e)
            if self._p.trouble is None:
                with self.lock:
                    self._schedule(RETRY_MS)

    def _write(self, removed: tuple[str, ...]) -> None:
        """Write the consumers that have changed, and removals; `_writing` is held."""
        with self.lock:
            dirty = [each for each in self.known.values() if each.is_dirty and each.name not in removed]
            kept = [consumer.kept() for consumer in dirty]
            for consumer in dirty:
                consumer.is_dirty = False
        if not dirty and not removed:
            return
        try:
            named = [place_of(cursor) for each in kept for cursor in (each.position, each.high)]
            if named:
                self._commit.wait(max(named))
            with self._commit.final():
                self._offsets.write(kept, removed, self._time.now())
        except BaseException:
            with self.lock:
                for consumer in dirty:
                    consumer.is_dirty = True
            raise
        with self.lock:
            for consumer, each in zip(dirty, kept, strict=True):
                consumer.held = each.position
        with self._p.lock:
            self._p.hold_log()

    def _free(self, kept_from: int) -> None:
        """Remove what an operator's command has set free, before it returns: the operator's program closes the store next."""
        if self._log.keep_from > kept_from:
            self._keeper.call(self._p.free_log)

    def keep_from(self) -> int:
        """The place from which on the log is held for a consumer."""
        return min((place_of(consumer.held) + 1 for consumer in self.known.values()), default=NEVER)

    # -- verbs --------------------------------------------------------------------------------------------------------

    def attach(
        self, name: str, start: str | Cursor, *, is_copy: bool, make: Callable[[FeedConsumer], EngineFeed]
    ) -> EngineFeed:
        """Open the feed of a consumer, which is made when it is not known."""
        with self._opening:
            consumer = self.known.get(name)
            if consumer is None:
                consumer = self._create(name, start, is_copy=is_copy)
            elif consumer.open_feed is not None:
                raise Refused(
                    f"the feed of consumer {self._said(name)} is open already: close it first, or follow under another "
                    "name"
                )
            feed = make(consumer)
            consumer.feed = weakref.ref(feed)
            return feed

    def get(self, name: str) -> FeedConsumer:
        """A consumer that must exist."""
        consumer = self.known.get(name)
        if consumer is None:
            scope = self._scope_of(name)
            known = ", ".join(sorted(each[len(scope) :] for each in self.known if each.startswith(scope))) or "none"
            raise NotFound(f"there is no feed consumer {self._said(name)}: there is {known}")
        return consumer

    def _scope_of(self, name: str) -> str:
        """What the names of one journal's consumers begin with; merged journals keep them together (member)."""
        return name[: name.index(":") + 1] if self._p.name == MERGED else ""

    def _said(self, name: str) -> str:
        """A consumer's name and journal, for messages."""
        scope = self._scope_of(name)
        return f"{name[len(scope) :]!r} of journal {scope[:-1] or self._p.name}"

    def _create(self, name: str, start: str | Cursor, *, is_copy: bool) -> FeedConsumer:
        """A new consumer, durable on return; the log is held for it from here on."""
        with self._writing:
            if len(self.known) >= CONSUMERS_MAX:
                raise Refused(f"journal {self._p.name} has {CONSUMERS_MAX} feed consumers: remove some of them first")
            p = self._p
            with p.lock:
                position = start_of(p, start)
                consumer = FeedConsumer(name, Acks(position), COPY if is_copy else SYNC)
                self.known = {**self.known, name: consumer}
                self._p.hold_log()
            consumer.is_dirty = True
            try:
                self._write(())
            except BaseException:
                self._forget(name)
                raise
        return consumer

    def remove(self, name: str) -> None:
        """Remove a consumer; what only it held of the log is freed on return."""
        before = self._log.keep_from
        with self._opening, self._writing:
            self._idle(name)
            self._write((name,))
            self._forget(name)
        self._free(before)

    def _forget(self, name: str) -> None:
        self.known = {other: consumer for other, consumer in self.known.items() if other != name}
        with self._p.lock:
            self._p.hold_log()

    def mark(self, name: str, cursor: Cursor) -> None:
        """Set a position: all up to it counts as acknowledged, nothing above it does; what only it held is freed on return."""
        before = self._log.keep_from
        with self._opening, self._writing:
            consumer = self._idle(name)
            with self._p.lock:
                position = start_of(self._p, cursor)
                consumer.held = min(consumer.held, position)
                self._p.hold_log()
            self._set(consumer, Acks(position))
        self._free(before)

    def skip(self, name: str, cursor: Cursor) -> bool:
        """Acknowledge one change that was not delivered; whether it was not acknowledged before."""
        with self._opening, self._writing:
            consumer = self._idle(name)
            if consumer.is_copying:
                raise Refused(
                    f"the feed consumer {self._said(name)} has not completed its copy: mark a position, or let it copy"
                )
            with self._p.lock:
                spans = spans_of(self._p)
            roll_forward(cursor, spans)  # raises when there is no such change
            if cursor.offset < 0:
                raise Invalid(f"{cursor} is before the first change: name a change to skip")
            with self.lock:
                runs = consumer.acks.runs()
                if len(runs) >= RUNS_MAX:
                    raise Refused(f"{RUNS_MAX} runs of changes are acknowledged above the position: mark one instead")
                acks = Acks(consumer.acks.position, consumer.acks.high, runs)
                is_new = acks.skip(cursor)
            if is_new:
                self._set(consumer, acks)
            return is_new

    def _set(self, consumer: FeedConsumer, acks: Acks) -> None:
        """Give a consumer other acknowledgements, durable on return; an error leaves those that it had."""
        with self.lock:
            before = consumer.acks, consumer.is_copying
            consumer.acks, consumer.is_copying, consumer.is_dirty = acks, False, True
        try:
            self._write(())
        except BaseException:
            with self.lock:
                consumer.acks, consumer.is_copying = before
                self.touched(consumer)  # what is on the disk now is not known
            raise

    def _idle(self, name: str) -> FeedConsumer:
        consumer = self.get(name)
        if consumer.open_feed is not None:
            raise Refused(
                f"the feed of consumer {self._said(name)} is open: close it first, or use its own ack and fail"
            )
        return consumer

    def views(self) -> list[FeedView]:
        """The view of each consumer, by name."""
        p = self._p
        with p.lock:
            logs = kept_logs(p)
        sizes = _sizes(logs)
        with self.lock:
            return [
                self._view(each, [log.span for log in logs], sizes)
                for each in sorted(self.known.values(), key=lambda each: each.name)
            ]

    def _view(self, consumer: FeedConsumer, spans: list[Span], sizes: list[tuple[Cursor, int]]) -> FeedView:
        behind = consumer.lag(spans)
        held = sum(size for last, size in sizes if last > consumer.held) if behind else 0
        mode = "copy" if consumer.is_copying else "sync"
        return FeedView(consumer.name, consumer.position, behind, held, mode, consumer.open_feed is not None)

    def check(self, expected: Callable[[], tuple[int, bool]]) -> list[str]:
        """What is wrong with the offset log, or with what is held of the log (retention.expected), in words."""
        p = self._p
        with self._writing:
            try:
                kept = {each.name: each for each in OffsetLog(self.directory, p.name.encode()).load(is_owner=False)}
            except StorageError as e:
                return [f"offset log: {e}"]
            if not p.is_writable:
                return []
            found = []
            with p.lock:
                end = Cursor(p.order, self._log.end.offset - 1)
                spans = [log.span for log in kept_logs(p)]
                kept_from, (keep_from, may_lose) = self._log.keep_from, expected()
            if kept.keys() != self.known.keys():
                found.append(f"offset log: it has the consumers {sorted(kept)}, memory has {sorted(self.known)}")
            for name, consumer in self.known.items():
                if name in kept and kept[name].position != consumer.held:
                    found.append(f"offset log: {name!r} stands at {kept[name].position}, memory has {consumer.held}")
                if name in kept and kept[name].high > end:
                    found.append(f"offset log: {name!r} was given {kept[name].high}, but the log ends at {end}")
                if not may_lose and roll_forward(consumer.held, spans) < oldest(spans):
                    found.append(
                        f"offset log: {name!r} stands at {consumer.held}, the log begins after {oldest(spans)}"
                    )
            if kept_from != keep_from:
                found.append(f"offset log: the log is kept from {kept_from} on, it should be from {keep_from} on")
            return found


def _sizes(logs: list[KeptLog]) -> list[tuple[Cursor, int]]:
    """The last cursor that each file of the log can hold, and its size."""
    sizes = []
    for span, directory in logs:
        if span.is_gone:
            continue
        try:
            segments = list_segments(directory)
        except FileNotFoundError:
            continue  # let go since it was listed
        for first, following in zip(segments, [*segments[1:], NEVER], strict=True):
            try:
                sizes.append((Cursor(span.order, following - 1), segment_path(directory, first).stat().st_size))
            except FileNotFoundError:
                continue  # let go since it was listed
    return sizes
