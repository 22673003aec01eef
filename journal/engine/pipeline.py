"""
What the verbs of one journal work through: its lock, log, state and settings, and the path of a change.

    enter    under the lock: may we work, what time is it, is a timer due
    write    append the record, then apply its effect; a refusal before the append changes nothing
    change   enter and write under the lock, then wait until the record is as durable as was asked

A journal with files of its own has an OwnPipeline (journal.engine.own_pipeline), a merged one is a Member of what all merged
journals share (journal.engine.merged.sequence).

P1  A record is in the log before its effect is applied, and no caller is answered before its record is as durable as it
    asked for.
P2  When applying was cut short (an interrupt, an error), the open transaction is thrown away and the log replayed.
P3  `trouble` is why nothing more is done here: closed, forked, or failed. It never goes away.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgpack

from journal.core.counters import Tally
from journal.core.entry.effects import Effect, Group, to_list
from journal.core.log.cursor import Cursor
from journal.core.log.record import Encoder
from journal.core.schema.schema import Schema
from journal.core.settings import Settings
from journal.engine.arguments import ENTRY_OVERHEAD_MAX
from journal.engine.checkpoints import Checkpoints
from journal.engine.feed.consumer import Consumers
from journal.engine.files.lmdb import LmdbError, translate
from journal.engine.generations.compaction import Compaction
from journal.engine.generations.retention import Retention
from journal.engine.generations.view import GenerationsView
from journal.engine.log.deferred_syncs import deferred
from journal.engine.log.durability import FULL, OS, level_named
from journal.engine.log.followers import Followers
from journal.engine.log.group_commit import ChangeKind, GroupCommit, NotHere
from journal.engine.log.writer import LogWriter
from journal.engine.runtime.background import Keeper
from journal.engine.runtime.clock import EngineTime
from journal.engine.runtime.wakeups import Due
from journal.engine.snapshots.take import Snapshots
from journal.engine.state.apply import JournalState
from journal.engine.state.file import GenerationRows
from journal.engine.state.old_values import encoder_of
from journal.errors import StorageError

log = logging.getLogger("journal.pipeline")
R = TypeVar("R")


class Pipeline:
    """The write path of one journal, with what it shares with others and what is its own."""

    only: bytes | None = None
    """In a log that several journals share: whose records are followed."""
    state: JournalState
    generations: GenerationsView
    consumers: Consumers
    """The consumers that follow the log under a name."""
    checkpoints: Checkpoints
    retention: Retention
    compaction: Compaction
    encode: Encoder
    """Makes the journal's records."""
    trouble: StorageError | None
    order: int
    """Of the active generation."""
    is_broken: bool
    """What is in memory may not be what the log says; true only between two lines, or after an interrupt (P2)."""
    next_token: int
    full_requested: int
    """The last offset that a caller wants durable."""
    timer_at: int
    """When the next timer is due."""
    enter_unflushed: Callable[[], int]
    """`enter` for put, claim and done, which can do with entries that LMDB does not have yet (reader X5)."""
    append: Callable[..., int]
    """The first half of `write`: the caller applies the effect and says `applied`, or `misapplied`."""
    applied: Callable[[int, int, int, int], None]
    """The second half of `write`: of the offset, the number of changes, the time and the level."""
    timer_soon: Callable[[int], None]
    """A timer is due at this date, or earlier. Under the lock."""
    arm: Callable[[], None]
    """The next timer is due at `timer_at`, also when there is no call before."""
    pin_rows: Callable[[], None]
    """Read transactions are open on the rows: none is given up until `unpin_rows`. Under the lock."""
    unpin_rows: Callable[[], None]

    def __init__(
        self, top: Path, name: str, settings: Settings, *, lock: threading.Lock, log: LogWriter, followers: Followers,
        commit: GroupCommit, snapshots: Snapshots, keeper: Keeper, time: EngineTime, level: int, claim_level: int, is_writable: bool,
    ) -> None:  # fmt: skip
        self.name, self.top, self.settings = name, top, settings
        self.lock, self.log, self.followers, self.commit = lock, log, followers, commit
        self.snapshots, self.time, self.keeper = snapshots, time, keeper
        self.level, self.claim_level, self.is_writable = level, claim_level, is_writable
        self.due = Due(lock)
        self.sleeping = self.due.sleeping
        """When each sleeping worker wakes by itself; it is woken when something falls due before."""
        self.tally = Tally()
        self.plain_bytes_max = 0  # of packed data in a put without options; 0 when a schema must look first
        self.tick: Callable[[int], int] = lambda now: 0
        """Does a step of what is due and sets `timer_at`; how much it did. Under the lock."""
        self.put_together: Callable[[list[Any]], list[Any]] = lambda puts: [None] * len(puts)
        """Makes many usual puts as one change; None for one that it leaves."""

    def wire(self, tick: Callable[[int], int], put_together: Callable[[list[Any]], list[Any]]) -> None:
        """The verbs are there, which a pipeline has no part of: what its timers and its group commit call."""
        self.tick, self.put_together = tick, put_together

    def directory(self, order: int) -> Path:
        """Where a generation is."""
        return self.top / f"{order:06d}"

    @property
    def changes(self) -> int:
        """Since the last checkpoint."""
        return self.checkpoints.changes

    @changes.setter
    def changes(self, changes: int) -> None:
        self.checkpoints.changes = changes

    @property
    def schema(self) -> Schema | None:
        """What is checked on put: the schema of the active generation."""
        return self.generations.schema

    @property
    def blank(self) -> dict[str, Any] | None:
        """All fields of the schemas, with None; None when there is no schema."""
        return self.generations.blank

    @property
    def next_offset(self) -> int:
        """Where the next change will be in the log, over all generations."""
        return self.log.next_offset

    @property
    def rotate_at(self) -> int:
        """When the next generation is to begin."""
        return self.generations.rotate_at

    @property
    def last_cursor(self) -> Cursor:
        """The last change."""
        return Cursor(self.order, self.next_offset - 1 - self.log.base)

    # -- the path, under the lock -------------------------------------------------------------------------------------

    def enter(self) -> int:
        """May we work? What time is it? Timers that are due have fired when this returns, and LMDB has all entries."""
        now = self.enter_unflushed()
        if self.state.pending or self.state.lent:
            self.flush()
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
        self, effect: Effect, count: int, now: int, level: int, apply: Callable[[int], None] | None = None, *,
        is_essential: bool = False,
    ) -> int:  # fmt: skip
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

    def write_unawaited(self, effect: Effect, count: int, now: int) -> int:
        """Append and apply a record that no caller waits for, and that may use the last room of the log."""
        return self.write(effect, count, now, min(self.level, OS), partial(self.state.apply, effect), is_essential=True)

    def misapplied(self, error: LmdbError) -> StorageError:
        """What to raise when LMDB refused a change; it is mended before the next one."""
        return translate(error, self.state.file.path, "cannot apply a change to")

    def rouse(self, now: int) -> None:
        """Wake sleeping workers if something is due before they wake by themselves."""
        next_due = None if self.state.is_paused else self.state.order.next_due(now)
        if next_due is not None and next_due < max(self.sleeping.values()):
            self.due.rouse(next_due)

    def shown(self) -> int:
        """The last offset that a follower may see: no record that could still vanish although it was asked to last."""
        synced = self.log.synced
        return synced if synced < self.full_requested else self.log.last_in_os

    def must_settle(self, at: int) -> bool:
        """Whether a row written at this offset could still vanish although its writer asked for durability."""
        return self.log.synced < at <= self.full_requested

    def write_all(self, effects: Sequence[Effect], now: int, level: int, *, is_essential: bool = False) -> int:
        """Append one record of effects, one or several, and apply it; the offset of the last of them. Under the lock."""
        effect = effects[0] if len(effects) == 1 else Group([to_list(each) for each in effects])
        return self.write(effect, len(effects), now, level, is_essential=is_essential) + len(effects) - 1

    def take_tokens(self, count: int) -> int:
        """The first of so many new tokens. Taken before the record: an interrupt may waste tokens, never use one twice."""
        first = self.next_token
        self.next_token = first + count
        return first

    def mark_broken(self) -> None:
        """What is in memory may not be what the log says: the next caller has it loaded anew (P2). Under the lock."""
        self.is_broken = True

    def last_unsettled(self, ats: Iterable[int]) -> int:
        """The last of these offsets that could still vanish although its writer asked for durability; -1 for none. Under the lock."""
        synced, requested = self.log.synced, self.full_requested
        if synced >= requested:
            return -1
        return max((at for at in ats if synced < at <= requested), default=-1)

    def check_room(self, weight: int = 1) -> None:
        """Refuse when there is no room for so many changes before the next checkpoint."""
        if self.changes + weight > self.checkpoints.changes_room:
            raise self.checkpoints.refusal()

    def add_changes(self, count: int) -> None:
        """Count so many changes more, or fewer, than a record had, for what it has touched of the map. Under the lock."""
        self.changes += count

    def change_index(self, extend: Callable[[], int]) -> None:
        """Change rows that no record is about; `extend` gives how many it has changed. Under the lock."""
        self.check_room()
        self.is_broken = True  # until it is done: an interrupt may come anywhere
        try:
            self.state.on_index()
            self.changes += extend()
        except LmdbError as e:
            raise self.misapplied(e) from e
        self.is_broken = False
        if self.changes >= self.checkpoints.press_changes:
            self.checkpoints.pressed()

    def wake_workers(self) -> None:
        """Have sleeping workers look around; under the lock."""
        self.due.notify_all()

    def rotation_due(self) -> None:
        """A rotation by date is due. Under the lock."""
        self.generations.due()

    def set_timer(self, date: int) -> None:
        """The next timer is due at this date. Under the lock."""
        self.timer_at = date
        self.arm()

    def look_at_settings(self) -> None:
        """The settings or the schema changed."""
        limit = self.settings.entry_bytes_max - ENTRY_OVERHEAD_MAX
        self.plain_bytes_max = max(limit, 0) if self.generations.schema is None else 0
        self.encode = self.new_encoder()

    def new_encoder(self, packer: msgpack.Packer | None = None) -> Encoder:
        """What makes the journal's records, as its settings say."""
        return encoder_of(self, self.only or self.log.namespace, packer, has_old=self.settings.log_old)

    def level_of(self, durability: str | None, default: int) -> int:
        """The level that a call asked for."""
        return default if durability is None else level_named(durability)

    def check_writable(self) -> None:
        """Refuse where nothing is written."""
        self.level_of(None, self.level)

    # -- outside of the lock ------------------------------------------------------------------------------------------

    def rows_now(self) -> list[GenerationRows]:
        """The generations that have rows."""
        return self.state.generations

    def is_syncing(self) -> bool:
        """Whether a sync is under way: a change that must be durable is handed over then (`change`)."""
        return self.commit.io.locked()

    def now(self) -> int:
        """The engine's time; refused when nothing more is done here (P3)."""
        self.check_open()
        return self.time.now()

    def check_open(self) -> None:
        """Refuse when nothing more is done here (P3)."""
        if self.trouble is not None:
            raise self.trouble

    def lease_time(self, given: int | None) -> int:
        """How long a lease lasts, in ms, as given or by the settings."""
        return self.settings.processing_timeout if given is None else given

    def change(
        self, level: int, make: Callable[..., tuple[R, int]], *args: Any, kind: ChangeKind = ChangeKind.ANY
    ) -> R:
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
        if level == FULL:
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

    def figures(self) -> dict[str, Any]:
        """Counters and sizes of the log, the rows and what keeps them; under the lock."""
        log, commit, checkpoints, compaction, generations = (
            self.log, self.commit, self.checkpoints, self.compaction, self.state.generations,
        )  # fmt: skip
        return {
            "order": self.order,
            "generations": len(generations),
            "next_offset": log.next_offset - log.base,
            "durable_offset": log.synced - log.base,
            "log_bytes": log.bytes_written,
            "rows_bytes": sum(rows.file.used_bytes() for rows in generations),
            "syncs": commit.syncs,
            "sync_time": commit.sync_times.view(),
            "compactions": compaction.passes,
            "compacted_records": compaction.records_removed,
            "compacted_bytes": compaction.bytes_saved,
            "checkpoints": checkpoints.count,
            "checkpoint_ms_last": round(checkpoints.pause_ms_last, 3),
            "checkpoint_ms_max": round(checkpoints.pause_ms_max, 3),
        }

    def use_settings(self, settings: Settings) -> None:
        """Go on with other settings. Under the lock."""
        self.settings = settings
        self.look_at_settings()

    def checkpoint(self) -> None:
        """Make a checkpoint, and look after what one leaves behind. On the keeper."""
        self.checkpoints.run()

    def begin_copy(self) -> None:
        """Files are copied: no rows are given up, and the journal is not closed, until `end_copy`. Under the lock."""
        self.snapshots.begin()
        self.pin_rows()

    def end_copy(self) -> None:
        """Under the lock."""
        self.unpin_rows()
        self.snapshots.end()

    def wipes(self) -> bool:
        """Whether files are overwritten before they go."""
        return self.settings.wipe
