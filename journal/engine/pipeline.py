"""
The write path of one journal: all changes go through here, one after the other.

    enter    under the lock: may we work, what time is it, is a timer due
    write    append the record, then apply its effect; a refusal before the append changes nothing
    change   enter and write under the lock, then wait until the record is as durable as was asked

P1  A record is in the log before its effect is applied, and no caller is answered before its record is as durable as it
    asked for.
P2  When applying was cut short (an interrupt, an error), the open transaction is thrown away and the log replayed.
P3  `trouble` is why nothing more is done here: closed, forked, or failed. It never goes away.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from journal.core.counters import Tally
from journal.core.entry.effects import Effect, Packed
from journal.core.log.cursor import base_of
from journal.core.settings import Settings
from journal.engine.arguments import ENTRY_OVERHEAD_MAX
from journal.engine.checkpoints import Checkpoints
from journal.engine.feed.consumers import Consumers
from journal.engine.files.lmdb import LmdbError, LmdbFile, check_before_open, digest_of, translate
from journal.engine.files.posix import storage_error
from journal.engine.generations.generations import Generations, Kept
from journal.engine.log.compaction import Compaction
from journal.engine.log.deferred_syncs import deferred
from journal.engine.log.durability import FULL, NONE, OS, level_named
from journal.engine.log.followers import Followers
from journal.engine.log.group_commit import GroupCommit, Kind, NotHere
from journal.engine.log.reader import Place, Reader, segment_path
from journal.engine.log.retention import Retention
from journal.engine.log.writer import Log
from journal.engine.runtime.background import Alarm, Keeper
from journal.engine.runtime.clock import EngineTime
from journal.engine.runtime.timer_alarm import RETRY_S, Wake
from journal.engine.runtime.wakeups import Due
from journal.engine.state import commit_parts
from journal.engine.state.apply import State
from journal.engine.state.clock_steps import follow, resume
from journal.engine.state.file import DATABASES, Rows
from journal.engine.state.old_values import encoder_of
from journal.engine.verb_side import VerbSide
from journal.errors import JournalError, LogDamaged, StorageError, StoreClosed, StoreFailed, StoreFull

log = logging.getLogger("journal.pipeline")
R = TypeVar("R")


class Pipeline(VerbSide, Wake):
    """A journal's lock, log, group commit, state and timers."""

    only: bytes | None = None
    """In a log that several journals share: whose records are followed."""

    def __init__(
        self,
        top: Path,
        name: str,
        settings: Settings,
        *,
        kept: list[Kept],
        keeper: Keeper,
        time: EngineTime,
        opening: int,
        level: int,
        claim_level: int,
        sync_s: float,
        map_bytes: int,
    ) -> None:
        self.name, self.top = name, top
        self.order = kept[-1].order
        """Of the active generation."""
        self.settings, self.time, self.keeper = settings, time, keeper
        self.level, self.claim_level, self.map_bytes = level, claim_level, map_bytes
        self.is_writable = True
        self.lock = threading.Lock()
        self.due = Due(self.lock)
        self.followers = Followers()
        self.sleeping = self.due.sleeping
        """When each sleeping worker wakes by itself; it is woken when something falls due before."""
        self.trouble: StorageError | None = None
        self.is_broken = False
        """What is in memory may not be what the log says; true only between two lines, or after an interrupt (P2)."""
        self.changes = 0
        """Since the last checkpoint."""
        self.next_token, self.timer_at = opening << 40, 0
        self.offset = self.offset_seen = time.offset
        self.tick: Callable[[int], int] = lambda now: 0
        """Set by the timers: does a step of what is due and sets `timer_at`; how much it did."""
        self.tally = Tally()
        self.full_requested = -1
        """The last offset that a caller wants durable."""
        self.checkpoints = Checkpoints(self, map_bytes)
        self.log = self.log_of(self.order)
        self.put_together: Callable[[list[Any]], list[Any]] = lambda puts: [None] * len(puts)
        """Set by the producing side: makes many usual puts as one change; None for one that it leaves."""
        self.commit = GroupCommit(
            self.log, self.lock, name, lambda x: self.put_together(x), self._failed, self.followers.tell
        )
        self.plain_bytes_max = 0  # of packed data in a put without options; 0 when a schema must look first
        self.generations = Generations(self, kept)
        self.consumers = Consumers(self, top / "offsets")
        """The consumers that follow the log under a name."""
        self.retention = Retention(self)
        self.compaction = Compaction(self)
        self._sync_s, self._is_sync_scheduled = sync_s, False
        self._alarm = Alarm(keeper, self._tick_later)

    # -- opening and closing, on the keeper ---------------------------------------------------------------------------

    def directory(self, order: int) -> Path:
        """Where a generation is."""
        return self.top / f"{order:06d}"

    def log_of(self, order: int) -> Log:
        """The log of a generation, not opened yet."""
        directory, namespace = self.directory(order) / "log", self.name.encode()
        made = Log(directory, namespace, self.settings.segment_bytes_max, base_of(order))
        made.encode = encoder_of(self, namespace)
        made.remove = lambda path: self.generations.dispose_of_segment(path)
        return made

    def open(self, digests: dict[int, int | None], *, is_deep: bool) -> None:
        """Open the rows of all generations and replay what the log has after them."""
        opened: list[Rows] = []
        try:
            for order in (kept.order for kept in self.generations.kept if kept.has_rows):
                path = self.directory(order) / "rows.mdb"
                check_before_open(path, digests.get(order), is_deep=is_deep)
                opened.append(Rows(LmdbFile(path, DATABASES, map_bytes=self.map_bytes), order))
            commit_parts.check(opened, self.log.directory)
            self.state = self._state_over(opened)
            applied, end = self._replay()
            commit_parts.check_end(opened, self.log.base + end.offset)
            self.log.open_at(end, applied, is_clean=all(digests.get(rows.order) is not None for rows in opened))
            self.consumers.load()
        except BaseException:
            for rows in opened:
                rows.file.abandon()
            self.log.close()
            raise
        resume(self)
        self.checkpoints.opened(applied)
        self.generations.schedule()
        self.look_at_settings()

    def _state_over(self, generations: list[Rows]) -> State:
        return State(generations, self.timer_soon)

    def _redo(self, namespace: bytes, effect: Effect, at: int) -> None:
        """Apply a record that was read."""
        self.state.apply(effect, at)

    def _replay(self) -> tuple[Place, Place]:
        """Load memory from the rows and apply the records after them; where that begins and ends."""
        state = self.state
        state.use()
        applied = state.load()
        self.changes = 0
        stamp = max(self.log.stamp, state.time)
        reader = Reader(self.log.directory, self.name.encode(), applied)
        for place, record, payload in reader:
            try:
                self._redo(record.namespace, payload.effect, self.log.base + place.offset)
            except LmdbError as e:
                raise translate(e, state.file.path, "cannot apply the log to") from e
            except (KeyError, TypeError, ValueError, IndexError) as e:
                raise LogDamaged(
                    f"{segment_path(reader.directory, place.segment)}: the record at byte {place.position} (offset "
                    f"{place.offset}) does not fit the rows: {e!r}. Restore the store from a copy"
                ) from e
            self.changes += self.checkpoints.weight(payload.changes, len(record.data))
            stamp = max(stamp, record.timestamp)
        self.log.stamp = stamp
        state.rebuild_order()
        self.timer_at = 0
        return applied, reader.end

    def close(self) -> dict[int, int | None]:
        """Commit everything and close; the digests of the rows by generation, nothing when they could not be committed."""
        clean = False
        self.compaction.close()
        if self.trouble is None:
            self.consumers.close()
        with self.commit.io, self.lock:
            if self.trouble is not None and not isinstance(self.trouble, StoreFailed):
                return {}
            was_failed = self.trouble is not None
            # No new call enters now; callers that wait for a sync have it when the lock is free again.
            self.trouble = StoreClosed(f"the journal {self.name} is closed: its store was closed")
            try:
                if not self.is_broken and not was_failed:
                    self.commit.sync_locked()
                    self.checkpoints.commit_rows()
                    for rows in self.state.generations:
                        rows.file.sync()
                    clean = True
            except JournalError as e:
                log.error("close_without_checkpoint journal=%s error=%s", self.name, e)
            self.due.notify_all()
            self.followers.tell()
        self.consumers.wake()
        self.commit.close()
        with self.commit.io, self.lock:
            for rows in self.state.generations:
                rows.file.abandon()
            self.log.close()
        if not clean:
            return {}
        return {rows.order: digest_of(rows.file.path) for rows in self.state.generations}

    def abandon_after_fork(self, error: StorageError) -> None:
        """In a forked child: refuse everything, take no lock, touch no file that the parent uses."""
        self.trouble = error
        self.lock = threading.Lock()
        self.due = Due(self.lock)
        self.commit.abandon_after_fork()
        self.consumers.abandon_after_fork()
        self.log.close()

    def _failed(self, error: StoreFailed) -> None:
        if self.trouble is None:
            self.trouble = error
            self.followers.tell()
            self.consumers.wake()
            self.keeper.after(0, self._tick_later)  # wakes all sleeping workers

    # -- the path, under the lock -------------------------------------------------------------------------------------

    def enter(self) -> int:
        """May we work? What time is it? Timers that are due have fired when this returns, and LMDB has all entries."""
        now = self.enter_unflushed()
        if self.state.pending or self.state.lent:
            self.flush()
        return now

    def enter_unflushed(self) -> int:
        """The same for put, claim and done, which can do with entries that LMDB does not have yet (reader X5)."""
        if self.trouble is not None:
            raise self.trouble
        if self.is_broken or self.checkpoints.is_hold_due:
            self._attend()
        time = self.time
        steady = time.read_steady()  # `time.steady()`, without the call
        if steady >= time.look_at:
            time.look_at_wall(steady)
        offset = time.offset
        if offset != self.offset_seen:
            follow(self, offset)
        now = (steady + offset) // 1_000_000
        if now >= self.timer_at:
            self.flush()
            self.tick(now)
            if self.checkpoints.is_hold_due:
                self._attend()
        return now

    def flush(self) -> None:
        """Have LMDB take all entries."""
        self.is_broken = True
        try:
            self.state.flush()
        except LmdbError as e:
            raise translate(e, self.state.file.path, "cannot apply changes to") from e
        self.is_broken = False

    def write(
        self,
        effect: Effect,
        count: int,
        now: int,
        level: int,
        apply: Callable[[int], None] | None = None,
        *,
        is_essential: bool = False,
    ) -> int:
        """Append the record of an effect, then apply it, by `apply` when there is a shorter way; its first offset (P1)."""
        offset = self.append(effect, count, now, level, is_essential=is_essential)
        try:
            if apply is None:
                self.state.apply(effect, offset)
            else:
                apply(offset)
        except LmdbError as e:
            raise self.misapplied(e) from e
        self.applied(offset, count, now, level)
        return offset

    def append(self, effect: Effect | Packed, count: int, now: int, level: int, *, is_essential: bool = False) -> int:
        """The first half of `write`: the caller applies the effect and says `applied`, or `misapplied`."""
        if self.changes >= self.checkpoints.changes_room and not is_essential:
            raise self.checkpoints.refusal()
        # While a sync is under way, records that wait for the next one go with its write; so do those that share one anyway.
        is_lazy = level != OS and (level == NONE or self.commit.io.locked() or deferred.has_company)
        self.is_broken = True  # until the effect is applied: an interrupt may come anywhere (P2)
        try:
            return self.log.append(effect, count, now, is_essential, is_lazy, level == FULL)
        except JournalError as e:
            self.is_broken = type(effect) is Packed  # it was applied as far as it was written
            if isinstance(e, StoreFailed):
                self.commit.fail(e)
            raise

    def misapplied(self, error: LmdbError) -> StorageError:
        """What to raise when LMDB refused a change; it is mended before the next one."""
        return translate(error, self.state.file.path, "cannot apply a change to")

    def applied(self, offset: int, count: int, now: int, level: int) -> None:
        """The second half of `write`."""
        self.is_broken = False
        changes = self.changes = self.changes + count
        if level == FULL:
            self.full_requested = offset + count - 1
        else:
            if not self._is_sync_scheduled:
                self._is_sync_scheduled = True
                self.keeper.after(self._sync_s, self._sync_later)
            if self.followers.latches:
                self.followers.tell()
        checkpoints = self.checkpoints
        if changes >= checkpoints.press_changes or self.log.bytes_written >= checkpoints.press_bytes:
            checkpoints.pressed()
        if self.sleeping:
            self._rouse(now)

    def _rouse(self, now: int) -> None:
        next_due = None if self.state.is_paused else self.state.order.next_due(now)
        if next_due is not None and next_due < max(self.sleeping.values()):
            self.due.rouse(next_due)

    def shown(self) -> int:
        """The last offset that a follower may see: no record that could still vanish although it was asked to last."""
        synced = self.log.synced
        return synced if synced < self.full_requested else self.log.last_in_os

    def look_at_settings(self) -> None:
        """The settings or the schema changed."""
        limit = self.settings.entry_bytes_max - ENTRY_OVERHEAD_MAX
        self.plain_bytes_max = max(limit, 0) if self.generations.schema is None else 0
        self.log.encode = encoder_of(self, self.log.namespace)

    def level_of(self, durability: str | None, default: int) -> int:
        """The level that a call asked for."""
        return default if durability is None else level_named(durability)

    def _attend(self) -> None:
        """Make the checkpoint that callers must wait for, or recover from a change that was cut short (P2)."""
        if self.commit.is_own_thread():
            # It holds `io`, which the keeper may be waiting for.
            if self.is_broken:
                raise NotHere
            return
        self.lock.release()  # other callers enter meanwhile
        try:
            if self.is_broken:
                self.keeper.call(self._mend)
            else:
                self.checkpoints.hold()
        finally:
            self.lock.acquire()
        if self.trouble is not None:
            raise self.trouble

    # -- outside of the lock ------------------------------------------------------------------------------------------

    def rows_now(self) -> list[Rows]:
        """The generations that have rows."""
        return self.state.generations

    def change(self, level: int, make: Callable[..., tuple[R, int]], *args: Any, kind: Kind = Kind.ANY) -> R:
        """
        Make a change under the lock and return its result when its record is as durable as the level says.

        `make` gives the result and the offset that it rests on. While a sync is under way it is handed over.
        """
        if level == FULL and self.commit.io.locked() and deferred.waits is None and not self.checkpoints.is_hold_due:
            try:
                return self.commit.submit(make, args, kind)
            except NotHere:
                log.info("change_handed_back journal=%s", self.name)
        with self.lock:
            result, offset = make(*args)
        if level == FULL and self.log.synced < offset:
            self.settle(offset)
        return result

    def settle(self, offset: int) -> None:
        """Return when an offset is durable; at once for one that is, and for -1."""
        if self.log.synced >= offset:
            return
        if deferred.waits is not None:
            deferred.waits[self] = max(offset, deferred.waits.get(self, -1))
        else:
            self.commit.wait(offset)

    def must_settle(self, at: int) -> bool:
        """Whether a row written at this offset could still vanish although its writer asked for durability."""
        return self.log.synced < at <= self.full_requested

    # -- on the keeper ------------------------------------------------------------------------------------------------

    def _mend(self) -> None:
        with self.lock:
            if self.is_broken and self.trouble is None:
                self.reload()

    def reload(self) -> None:
        """Throw the open transaction away and replay the log into a new one (P2)."""
        log.warning("reload journal=%s", self.name)
        self.is_broken = True
        try:
            self.log.flush()
            for rows in self.state.generations:
                rows.file.restart()
            # A record that was written just before an interrupt stays, although it was not acknowledged.
            self.log.resume(self._replay()[1])
        except (OSError, StoreFull) as e:
            # The log has it all: the next caller begins with it once more, and goes on when there is room.
            raise storage_error(e, "cannot read the log again") if isinstance(e, OSError) else e from e
        except StorageError as e:
            self.commit.fail(StoreFailed(f"journal {self.name} could not be reloaded: {e}. Reopen the store"))
            raise
        self.is_broken = False

    def _sync_later(self) -> None:
        self._is_sync_scheduled = False
        if self.trouble is None and self.log.synced < self.log.next_offset - 1:
            try:
                self.commit.sync_now()
            except StoreFull as e:
                log.warning("sync_postponed journal=%s error=%s", self.name, e)
                self._is_sync_scheduled = True
                self.keeper.after(RETRY_S, self._sync_later)
