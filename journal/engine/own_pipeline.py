"""
The pipeline of files: those of one journal, or those that all merged journals share. It opens them, replays the log, keeps the time
and closes them.

`timer_at` is the date of the next timer: every call looks at it first, the keeper does
when there are no calls.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from journal.core.entry.effects import Effect, Packed
from journal.core.limits import NEVER
from journal.core.log.cursor import base_of
from journal.core.log.record import Encoder
from journal.core.settings import Settings
from journal.engine.checkpoints import Checkpoints
from journal.engine.feed.consumers import LogConsumers
from journal.engine.files.lmdb import LmdbError, LmdbFile, check_before_open, digest_of, translate
from journal.engine.files.posix import storage_error
from journal.engine.generations.compaction import Compaction
from journal.engine.generations.generations import Generations
from journal.engine.generations.retention import Retention
from journal.engine.log.deferred_syncs import deferred
from journal.engine.log.durability import FULL, NONE, OS
from journal.engine.log.followers import Followers
from journal.engine.log.generation_record import GenerationRecord
from journal.engine.log.group_commit import GroupCommit, NotHere
from journal.engine.log.reader import Reader, RecordPlace, segment_path
from journal.engine.log.writer import LogWriter
from journal.engine.pipeline import Pipeline
from journal.engine.runtime.background import Alarm, Keeper
from journal.engine.runtime.clock import EngineTime
from journal.engine.runtime.timed_steps import PAUSE_S
from journal.engine.runtime.wakeups import Due
from journal.engine.snapshots.take import Snapshots
from journal.engine.state import commit_parts
from journal.engine.state.apply import JournalState
from journal.engine.state.clock_steps import ClockOffset
from journal.engine.state.file import DATABASES, GenerationRows
from journal.errors import Invalid, JournalError, LogDamaged, StorageError, StoreClosed, StoreFailed, StoreFull

log = logging.getLogger("journal.pipeline")

TIMER_MAX_S = 60.0
RETRY_S = 1.0


class OwnPipeline(Pipeline):
    """A log, group commit, state and timers, and all that looks after them."""

    generations: Generations
    consumers: LogConsumers
    kind_of_generations: type[Generations] = Generations

    def __init__(
        self, top: Path, name: str, settings: Settings, *, kept: list[GenerationRecord], keeper: Keeper, time: EngineTime,
        next_token: int, level: int, claim_level: int, sync_s: float, map_bytes: int,
        record: Callable[[list[GenerationRecord]], None], lock: threading.Lock | None = None, is_writable: bool = True,
    ) -> None:  # fmt: skip
        """`record` writes the list of generations to the catalog, durable on return."""
        order, lock, followers = kept[-1].order, lock or threading.Lock(), Followers()
        directory, limit = top / f"{order:06d}" / "log", settings.segment_bytes_max
        writer = LogWriter(directory, name.encode(), limit, base_of(order), self._remove_segment)
        commit = GroupCommit(writer, lock, name, self._put_together, self._failed, followers.tell)
        super().__init__(
            top, name, settings, lock=lock, log=writer, followers=followers, commit=commit, snapshots=Snapshots(), keeper=keeper,
            time=time, level=level, claim_level=claim_level, is_writable=is_writable,
        )  # fmt: skip
        self.order, self.next_token, self.timer_at = order, next_token, 0
        self.trouble, self.is_broken, self.full_requested = None, False, -1
        self.state = state = self._new_state()
        self.clock = ClockOffset(self, writer, state, time)
        self.consumers = consumers = LogConsumers(self, top / "offsets", commit=commit, keeper=keeper, time=time)
        self.generations = generations = self.kind_of_generations(
            self, kept, writer, state, consumers, commit=commit, keeper=keeper, time=time, map_bytes=map_bytes, record=record
        )  # fmt: skip
        self.retention = retention = Retention(
            self, writer, state, consumers, generations, commit=commit, keeper=keeper, time=time
        )
        self.compaction = Compaction(self, writer, retention, generations, commit=commit, keeper=keeper)
        self.checkpoints = Checkpoints(
            self, writer, state, self.clock, commit=commit, keeper=keeper, generations=generations, retention=retention,
            compaction=self.compaction, map_bytes=map_bytes,
        )  # fmt: skip
        self._map_bytes = map_bytes
        self._sync_s, self._is_sync_scheduled = sync_s, False
        self._alarm = Alarm(keeper, self._tick_later)

    def _new_state(self) -> JournalState:
        return JournalState([], self.timer_soon)

    def _remove_segment(self, path: Path) -> None:
        self.generations.dispose_of_segment(path)

    def _put_together(self, puts: list[Any]) -> list[Any]:
        return self.put_together(puts)

    # -- opening and closing, on the keeper ---------------------------------------------------------------------------

    def open(self, digests: dict[int, int | None], *, is_deep: bool) -> None:
        """Open the rows of all generations and replay what the log has after them."""
        opened: list[GenerationRows] = []
        try:
            for order in (kept.order for kept in self.generations.kept if kept.has_rows):
                path = self.directory(order) / "rows.mdb"
                check_before_open(path, digests.get(order), is_deep=is_deep)
                opened.append(GenerationRows(LmdbFile(path, DATABASES, map_bytes=self._map_bytes), order))
            commit_parts.check(opened, self.log.directory)
            self.state.use(opened)
            applied, end = self._replay()
            commit_parts.check_end(opened, self.log.base + end.offset)
            self.log.open_at(end, applied, is_clean=all(digests.get(rows.order) is not None for rows in opened))
            self.consumers.load()
            with self.lock:
                self.retention.free_soon()  # a crash may have come before it
        except BaseException:
            for rows in opened:
                rows.file.abandon()
            self.log.close()
            raise
        self.clock.resume()
        self.checkpoints.opened(applied)
        self.generations.schedule()
        self.look_at_settings()

    def _redo(self, namespace: bytes, effect: Effect, at: int) -> None:
        """Apply a record that was read."""
        self.state.apply(effect, at)

    def _replay(self) -> tuple[RecordPlace, RecordPlace]:
        """Load memory from the rows and apply the records after them; where that begins and ends."""
        state = self.state
        state.use()
        applied = state.load()
        checkpoints = self.checkpoints
        checkpoints.changes = 0
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
            checkpoints.changes += checkpoints.weight(payload.changes, len(record.data))
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

    # -- what its parts ask for ---------------------------------------------------------------------------------------

    def commit_then(self, then: Callable[[], None] = lambda: None) -> None:
        """Commit the rows, then call `then` before any other caller works. On the keeper."""
        self.checkpoints.commit(then)

    def hold_callers(self) -> None:
        """Have callers wait for a rotation that is due."""
        self.checkpoints.hold_callers()

    def hold_log(self) -> None:
        """Keep what the consumers need of the log, and no more."""
        if self.retention.hold():
            self.retention.free_soon()

    def free_log(self) -> None:
        """Remove what no consumer needs. On the keeper, without the lock."""
        self.retention.free()

    def pin_rows(self) -> None:
        """Read transactions are open on the rows: none is given up until `unpin_rows`."""
        self.generations.pin()

    def unpin_rows(self) -> None:
        """Under the lock."""
        self.generations.unpin()

    def moved_on(self, order: int) -> None:
        """Another generation is the active one."""
        self.order = order
        self.checkpoints.opened(RecordPlace(0, 0, 0))
        self.followers.tell()

    def skip_tokens(self, to: int) -> None:
        """Hand out no token before this one. Under the lock."""
        self.next_token = max(self.next_token, to)

    def rebuild_order(self) -> None:
        """Find the first entries anew; an error leaves it to the next call, which reads all again."""
        self.is_broken = True
        self.state.rebuild_order()
        self.is_broken = False

    def use_settings(self, settings: Settings) -> None:
        """Go on with other settings. Under the lock."""
        super().use_settings(settings)
        self.log.limit(segment_bytes=settings.segment_bytes_max)
        self.checkpoints.look_at_settings()
        self.generations.schedule()
        self.retention.hold()

    # -- timers -------------------------------------------------------------------------------------------------------

    def timer_soon(self, date: int) -> None:
        """A timer is due at this date, or earlier."""
        if date < self.timer_at:
            self.timer_at = date
            self.arm()

    def arm(self) -> None:
        """Have the keeper tick at `timer_at` when there is no call before."""
        if self.timer_at < self._alarm.at:
            seconds = self.time.until(self.timer_at)
            if seconds is not None:
                self._alarm.set(self.timer_at, min(max(seconds, PAUSE_S), TIMER_MAX_S))

    def looks_again(self) -> None:
        """The clock was set: timers, and workers that sleep to a date, look at the dates anew."""
        self.generations.schedule()
        self.timer_at, self._alarm.at = 0, NEVER
        self.due.notify_all()

    def _tick_later(self) -> None:
        with self.lock:
            if self.trouble is None:
                try:
                    self.enter()
                except Invalid:  # a clock that cannot be used (clock T4): it may be set in a moment
                    self._alarm.set(self.timer_at, RETRY_S)
                    raise
                self.arm()
            self.due.notify_all()

    # -- the path, under the lock -------------------------------------------------------------------------------------

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
        if offset != self.clock.seen:
            self.clock.follow(offset)
        now = (steady + offset) // 1_000_000
        if now >= self.timer_at:
            self.flush()
            self.tick(now)
            if self.checkpoints.is_hold_due:
                self._attend()
        return now

    def append(
        self, effect: Effect | Packed, count: int, now: int, level: int, *, is_essential: bool = False,
        encode: Encoder | None = None,
    ) -> int:  # fmt: skip
        """The first half of `write`: the caller applies the effect and says `applied`, or `misapplied`."""
        checkpoints = self.checkpoints
        if checkpoints.changes >= checkpoints.changes_room and not is_essential:
            raise checkpoints.refusal()
        # While a sync is under way, records that wait for the next one go with its write; so do those that share one anyway.
        is_lazy = level != OS and (level == NONE or self.commit.io.locked() or deferred.has_company)
        self.is_broken = True  # until the effect is applied: an interrupt may come anywhere (pipeline P2)
        try:
            return self.log.append(effect, count, now, is_essential, is_lazy, level == FULL, encode or self.encode)
        except JournalError as e:
            self.is_broken = type(effect) is Packed  # it was applied as far as it was written
            if isinstance(e, StoreFailed):
                self.commit.fail(e)
            raise

    def applied(self, offset: int, count: int, now: int, level: int) -> None:
        """The second half of `write`."""
        self.is_broken = False
        checkpoints = self.checkpoints
        changes = checkpoints.changes = checkpoints.changes + count
        if level == FULL:
            self.full_requested = offset + count - 1
        else:
            if not self._is_sync_scheduled:
                self._is_sync_scheduled = True
                self.keeper.after(self._sync_s, self._sync_later)
            if self.followers.latches:
                self.followers.tell()
        if changes >= checkpoints.press_changes or self.log.bytes_written >= checkpoints.press_bytes:
            checkpoints.pressed()
        if self.sleeping:
            self.rouse(now)

    def _attend(self) -> None:
        """Make the checkpoint that callers must wait for, or recover from a change that was cut short (pipeline P2)."""
        if self.commit.is_own_thread():
            # It holds `io`, which the keeper may be waiting for.
            if self.is_broken:
                raise NotHere
            return
        self.lock.release()  # other callers enter meanwhile
        try:
            if self.is_broken:
                self.keeper.call(self._mend_now)
            else:
                self.checkpoints.hold()
        finally:
            self.lock.acquire()
        if self.trouble is not None:
            raise self.trouble

    # -- on the keeper ------------------------------------------------------------------------------------------------

    def mend(self) -> None:
        """Have memory be what the log says. Under the lock."""
        if self.is_broken and self.trouble is None:
            self.reload()

    def _mend_now(self) -> None:
        with self.lock:
            self.mend()

    def reload(self) -> None:
        """Throw the open transaction away and replay the log into a new one (pipeline P2)."""
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
