"""
The part of a pipeline that is there for the verbs alone: what they would else reach for in its log, checkpoints and group commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from journal.core.entry.effects import Effect, Group, to_list
from journal.core.log.cursor import Cursor
from journal.engine.files.lmdb import LmdbError
from journal.errors import StorageError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Sequence

    from journal.core.schema.schema import Schema
    from journal.core.settings import Settings
    from journal.engine.checkpoints import Checkpoints
    from journal.engine.generations.generations import Generations
    from journal.engine.log.compaction import Compaction
    from journal.engine.log.group_commit import GroupCommit
    from journal.engine.log.retention import Retention
    from journal.engine.log.writer import Log
    from journal.engine.runtime.clock import EngineTime
    from journal.engine.runtime.wakeups import Due
    from journal.engine.state.apply import State


class VerbSide:
    """See the module."""

    lock: threading.Lock
    due: Due
    time: EngineTime
    state: State
    log: Log
    commit: GroupCommit
    checkpoints: Checkpoints
    generations: Generations
    retention: Retention
    compaction: Compaction
    settings: Settings
    trouble: StorageError | None
    order: int
    changes: int
    next_token: int
    full_requested: int
    is_broken: bool
    misapplied: Callable[[LmdbError], StorageError]
    look_at_settings: Callable[[], None]
    write: Callable[..., int]

    def last_unsettled(self, ats: Iterable[int]) -> int:
        """The last of these offsets that could still vanish although its writer asked for durability; -1 for none. Under the lock."""
        synced, requested = self.log.synced, self.full_requested
        if synced >= requested:
            return -1
        return max((at for at in ats if synced < at <= requested), default=-1)

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

    def rotation_due(self) -> None:
        """A rotation by date is due. Under the lock."""
        self.generations.due()

    @property
    def last_cursor(self) -> Cursor:
        """The last change."""
        return Cursor(self.order, self.next_offset - 1 - self.log.base)

    def now(self) -> int:
        """The engine's time; refused when nothing more is done here (P3)."""
        self.check_open()
        return self.time.now()

    def check_open(self) -> None:
        """Refuse when nothing more is done here (P3)."""
        if self.trouble is not None:
            raise self.trouble

    def check_room(self, weight: int = 1) -> None:
        """Refuse when there is no room for so many changes before the next checkpoint."""
        if self.changes + weight > self.checkpoints.changes_room:
            raise self.checkpoints.refusal()

    def add_changes(self, count: int) -> None:
        """Count so many changes more, or fewer, than a record had, for what it has touched of the map. Under the lock."""
        self.changes += count

    def lease_time(self, given: int | None) -> int:
        """How long a lease lasts, in ms, as given or by the settings."""
        return self.settings.processing_timeout if given is None else given

    def write_all(self, effects: Sequence[Effect], now: int, level: int, *, is_essential: bool = False) -> int:
        """Append one record of effects, one or several, and apply it; the offset of the last of them. Under the lock."""
        effect = effects[0] if len(effects) == 1 else Group([to_list(each) for each in effects])
        return self.write(effect, len(effects), now, level, is_essential=is_essential) + len(effects) - 1

    def is_syncing(self) -> bool:
        """Whether a sync is under way: a change that must be durable is handed over then (`change`)."""
        return self.commit.io.locked()

    def mark_broken(self) -> None:
        """What is in memory may not be what the log says: the next caller has it loaded anew (P2). Under the lock."""
        self.is_broken = True

    def take_tokens(self, count: int) -> int:
        """The first of so many new tokens. Taken before the record: an interrupt may waste tokens, never use one twice."""
        first = self.next_token
        self.next_token = first + count
        return first

    def wake_workers(self) -> None:
        """Have sleeping workers look around; under the lock."""
        self.due.notify_all()

    def use(self, settings: Settings) -> None:
        """Go on with other settings."""
        with self.lock:
            self.settings = settings
            if not settings.merged:
                self.log.limit(segment_bytes=settings.segment_bytes_max)
                self.checkpoints.look_at_settings()
            self.generations.schedule()
            self.look_at_settings()
            self.retention.hold()

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
