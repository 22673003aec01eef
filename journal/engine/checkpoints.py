"""
Checkpoints: when LMDB is committed, and what goes with it.

    the log is synced  ->  the rows are committed with the cursor that they have applied  ->  old segments are freed

V1  The log is synced before LMDB commits: the rows are never ahead of what a power cut leaves of the log.
V2  The place up to which LMDB has applied the log is written in the same commit.
V3  LMDB's last commit may be lost in a power cut (its meta page is not synced), so a segment of the log is freed only
    when the commit before has passed it.
V4  The changes between two checkpoints follow what the last one took: fewer when it held callers for more than
    PAUSE_MS, more when checkpoints take a tenth of the time or more.
V5  Puts are refused before the rows could fill their map; work that frees room goes on.
V6  Older generations that have changed are committed and synced before the active one: when that one says that it has
    applied something, they have it too.
V7  Here it is seen that a generation has grown to `rotate_bytes` (growth W1), so a checkpoint is due after a quarter of
    that, but not for less than LOOK_BYTES_MIN, nor while survivors move, which are no reason to rotate. Callers that
    write twice as much before it comes wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from journal.engine.files.lmdb import ROOM_BYTES
from journal.engine.generations.compaction import Compaction
from journal.engine.generations.generations import Generations
from journal.engine.generations.retention import Retention
from journal.engine.log.group_commit import GroupCommit
from journal.engine.log.reader import RecordPlace
from journal.engine.log.writer import ROLL_BYTES, LogWriter
from journal.engine.runtime.background import Keeper
from journal.engine.runtime.host import Host
from journal.engine.state import commit_parts
from journal.engine.state.apply import JournalState
from journal.engine.state.clock_steps import ClockOffset
from journal.errors import StorageError, StoreClosed, StoreFailed, StoreFull

log = logging.getLogger("journal.checkpoints")

PAUSE_MS = 5.0
CHANGES_MIN, CHANGES_FIRST, CHANGES_MAX = 1024, 4096, 8192
HOLD_FACTOR = 2
"""Callers run ahead of a checkpoint that is due by this factor; then they wait for it."""
AFTER_S = 1.0
BYTES_MAX = 4 << 20
LOOK_BYTES_MIN = 256 << 10
RETRY_S = 1.0
CHANGE_PAGES_MAX = 6
"""What a change may take of the map until the next checkpoint, besides its own bytes: the pages that it touches."""

WEIGHED_FROM = 64
"""Records with fewer changes count for all of them: it takes longer to find out than it gains."""
PAGES_PER_BYTE = 6
"""Bytes of new pages for each byte of a large record: its rows, and their indexes, in pages that are half full."""


class CheckpointedHost(Host, Protocol):
    """A journal whose rows are committed."""

    def mend(self) -> None: ...
    def reload(self) -> None: ...


class Checkpoints:
    """The checkpoints of one journal. `pressed` and `look_at_map` under its lock, `run` on the keeper without it."""

    def __init__(
        self, host: CheckpointedHost, log: LogWriter, state: JournalState, clock: ClockOffset, *, commit: GroupCommit, keeper: Keeper,
        generations: Generations, retention: Retention, compaction: Compaction, map_bytes: int,
    ) -> None:  # fmt: skip
        self.count = 0
        self.changes = 0
        """Since the last one."""
        self.pause_ms_last = self.pause_ms_max = 0.0
        self.press_changes = 0
        """`pressed` must be called when the changes since the last checkpoint reach this …"""
        self.press_bytes = 0
        """… or the bytes written to the log this."""
        self.is_hold_due = False
        """Callers must wait for a checkpoint before they go on."""
        self.changes_room = 0
        """Puts are refused from so many changes on."""
        self.full: str | None = None
        """Why puts are refused, when it is not for a moment only."""
        self.applied = RecordPlace(0, 0, 0)
        """What the rows have applied, as of the last commit."""
        self._host, self._log, self._state, self._clock = host, log, state, clock
        self._commit, self._keeper = commit, keeper
        self._generations, self._retention, self._compaction = generations, retention, compaction
        self._map_bytes = map_bytes
        self._changes_max = CHANGES_FIRST
        self._is_scheduled = self._is_hurried = False
        self._paused_at = 0.0
        self._before = self._bytes_from = 0
        self._bytes_max = BYTES_MAX

    def opened(self, applied: RecordPlace) -> None:
        """The rows were read, and the log after them replayed; or a generation begins. Under the lock."""
        self.is_hold_due = False
        self.applied = applied
        self._before = self._log.base + applied.offset
        self.look_at_map()
        if self.changes:
            self._schedule(AFTER_S)

    def look_at_map(self) -> None:
        """How much may be put until the next checkpoint (V5)."""
        file = self._state.file
        room = self._map_bytes * 9 // 10 - file.used_bytes()
        self.full = None
        if room <= 0:
            self.full = f"the rows of journal {self._host.name} fill nine tenths of their map: open with more map_bytes"
        self.changes_room = room // (CHANGE_PAGES_MAX * file.page_bytes)
        self._log.limit(rows_bytes=room // 2)
        self._bytes_from = self._log.bytes_written
        self.look_at_settings()
        if self._generations.grown():
            self.hold_callers()

    def look_at_settings(self) -> None:
        """How many bytes may be written until the next checkpoint (V7). Under the lock."""
        self.press_changes = self.press_bytes = 0
        limit = self._host.settings.rotate_bytes
        self._bytes_max = BYTES_MAX if limit is None else min(BYTES_MAX, max(LOOK_BYTES_MIN, limit // 4))

    def weight(self, changes: int, size: int) -> int:
        """How many changes those of one record with so many bytes count for: each page is touched once by all of them."""
        if changes < WEIGHED_FROM:
            return changes
        file = self._state.file
        touched = (file.used_bytes() + PAGES_PER_BYTE * size) // (CHANGE_PAGES_MAX * file.page_bytes)
        return min(changes, touched + 1)

    def refusal(self) -> StoreFull:
        """Why a put is refused."""
        if self.full is None:
            self._hurry()
        return StoreFull(
            self.full or f"the rows of journal {self._host.name} are about to fill their map: open with more map_bytes"
        )

    def pressed(self) -> None:
        """Changes came: schedule a checkpoint, hurry it, or have callers wait for it."""
        written, changes = self._log.bytes_written, self.changes
        is_looked_at = self._host.settings.rotate_bytes is not None and not self._state.active.growth.is_moving
        bytes_max = self._bytes_from + (self._bytes_max if is_looked_at else BYTES_MAX)
        hold_bytes = self._bytes_from + HOLD_FACTOR * self._bytes_max if is_looked_at else self._log.bytes_limit
        if changes < self._changes_max and written < bytes_max:
            if not self._is_scheduled:
                self._schedule(AFTER_S)
            self.press_changes, self.press_bytes = self._changes_max, bytes_max
        elif changes < self._changes_max * HOLD_FACTOR and written < hold_bytes:
            self._hurry()
            self.press_changes = self._changes_max * HOLD_FACTOR
            self.press_bytes = hold_bytes
        else:
            self.is_hold_due = self.full is None

    def hold_callers(self) -> None:
        """Have callers wait from now on: a rotation is due. Under the lock."""
        self.is_hold_due = True

    def hold(self) -> None:
        """Callers are far ahead of the checkpoints, or a rotation is due: it is made now. Without the lock."""
        self.is_hold_due = False
        generations = self._generations
        try:
            self._keeper.call(generations.rotate_if_due if generations.is_due else self.run)
        except StoreFull as e:
            # Work that frees room goes on; puts are refused until a checkpoint succeeds.
            self.full, self.changes_room = str(e), 0

    def _schedule(self, seconds: float) -> None:
        self._is_scheduled = True
        self._keeper.after(seconds, self._run_later)

    def _hurry(self) -> None:
        if not self._is_hurried:
            self._is_hurried = True
            self._keeper.after(0, self._run_later)

    def _run_later(self) -> None:
        self._is_scheduled = self._is_hurried = False
        if self._host.trouble is not None or not self.changes:
            return
        try:
            self.run()
        except StoreFull as e:
            log.warning("checkpoint_postponed journal=%s error=%s", self._host.name, e)
            self._schedule(RETRY_S)
        except StoreClosed:
            return

    def run(self) -> None:
        """Commit what was applied."""
        self.commit()
        with self._commit.final():
            self._log.extend_ahead()
        self._retention.look()
        self._compaction.look()
        self._generations.look_around()

    def commit(self, then: Callable[[], None] = lambda: None) -> None:
        """Sync the log and commit the rows, then call `then` before any other caller works. On the keeper."""
        host, sync = self._host, self._commit
        # Most of the log is synced before callers are held up, and the last commit (lmdb D5); what comes meanwhile is little.
        sync.sync_now()
        if host.trouble is not None:
            raise host.trouble
        try:
            self._state.file.sync()
            with sync.io, host.lock:
                if host.trouble is not None:
                    raise host.trouble
                host.mend()
                started = perf_counter()
                changes = self.changes
                sync.sync_locked()  # V1
                try:
                    self.commit_rows()
                    self._pace((perf_counter() - started) * 1000, changes)
                    then()
                except StoreFull:
                    self._log.drop_spares()
                    host.reload()
                    raise
        except (StoreFull, StoreClosed):
            raise
        except StorageError as e:
            sync.fail(e if isinstance(e, StoreFailed) else StoreFailed(str(e)))
            raise

    def commit_rows(self) -> None:
        """Commit; the log is synced, and the lock and `io` are held."""
        state, writer = self._state, self._log
        applied = writer.end
        room = PAGES_PER_BYTE * (ROOM_BYTES + writer.bytes_written - self._bytes_from)
        if state.older:
            self._generations.note_moves()
        state.keep(state.active.order, applied, self._clock.stamp())
        state.active.keep_parts(state.older, commit_parts.tail_of(writer))
        try:
            for rows in state.older:
                if rows.is_dirty:
                    rows.file.commit(room)
                    rows.file.sync()  # V6
                    rows.is_dirty = False
            state.file.commit(room)  # V2
        except StoreFull:
            state.use()
            raise
        state.use()
        state.active.growth.committed(state.file.used_bytes())
        self.changes = 0
        self.count += 1
        writer.passed(self._before)  # V3
        self._before, self.applied = writer.base + self.applied.offset, applied
        if writer.position >= ROLL_BYTES or self._retention.is_roll_due():
            try:
                writer.roll()
                self._retention.rolled()
            except StoreFull as e:
                log.warning("log_roll_postponed journal=%s error=%s", self._host.name, e)
        self.look_at_map()

    def _pace(self, pause_ms: float, changes: int) -> None:
        self.pause_ms_last = pause_ms
        self.pause_ms_max = max(self.pause_ms_max, pause_ms)
        ended = perf_counter()
        share = pause_ms / max(1000 * (ended - self._paused_at), pause_ms)
        self._paused_at = ended
        if share > 0.1 or (pause_ms < PAUSE_MS / 2 and changes >= self._changes_max):
            self._changes_max = min(CHANGES_MAX, self._changes_max * 2)
        elif pause_ms > PAUSE_MS and share < 0.05:
            self._changes_max = max(CHANGES_MIN, self._changes_max // 2)
