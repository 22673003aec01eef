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
V7  Here it is seen that a generation has grown to `rotate_bytes` (growth J1), so a checkpoint is due after a quarter of
    that, but not for less than LOOK_BYTES_MIN, nor while survivors move, which are no reason to rotate. Callers that
    write twice as much before it comes wait for it.
V8  Parts of the log that no consumer follows any more are removed soon, also when no change makes a checkpoint due.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

from journal.core.log.cursor import base_of
from journal.engine.files.lmdb import ROOM_BYTES
from journal.engine.log.reader import Place
from journal.engine.log.writer import ROLL_BYTES
from journal.engine.state import commit_parts
from journal.engine.state.clock_steps import stamp_of
from journal.errors import StorageError, StoreClosed, StoreFailed, StoreFull

if TYPE_CHECKING:
    from journal.engine.pipeline import Pipeline

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


class Checkpoints:
    """The checkpoints of one journal. `pressed` and `look_at_map` under its lock, `run` on the keeper without it."""

    def __init__(self, pipeline: Pipeline, map_bytes: int) -> None:
        self.count = 0
        self.pause_ms_last = 0.0
        self.pause_ms_max = 0.0
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
        self.applied = Place(0, 0, 0)
        """What the rows have applied, as of the last commit."""
        self._p = pipeline
        self._map_bytes = map_bytes
        self._changes_max = CHANGES_FIRST
        self._is_scheduled = False
        self._is_hurried = False
        self._is_freeing = False
        self._paused_at = 0.0
        self._before = 0
        self._bytes_from = 0
        self._bytes_max = BYTES_MAX

    def opened(self, applied: Place) -> None:
        """The rows were read, and the log after them replayed."""
        self.applied = applied
        self._before = self._p.log.base + applied.offset
        self.look_at_map()
        if self._p.changes:
            self._schedule(AFTER_S)

    def look_at_map(self) -> None:
        """How much may be put until the next checkpoint (V5)."""
        p = self._p
        file = p.state.file
        room = self._map_bytes * 9 // 10 - file.used_bytes()
        self.full = None
        if room <= 0:
            self.full = f"the rows of journal {p.name} fill nine tenths of their map: open with more map_bytes"
        self.changes_room = room // (CHANGE_PAGES_MAX * file.page_bytes)
        p.log.limit(rows_bytes=room // 2)
        self._bytes_from = p.log.bytes_written
        self.look_at_settings()
        limit = p.settings.rotate_bytes
        if limit is not None and p.state.active.growth.own_bytes >= limit and not p.generations.carrying.is_awaited:
            p.generations.is_due = self.is_hold_due = True

    def look_at_settings(self) -> None:
        """How many bytes may be written until the next checkpoint (V7). Under the lock."""
        self.press_changes = self.press_bytes = 0
        limit = self._p.settings.rotate_bytes
        self._bytes_max = BYTES_MAX if limit is None else min(BYTES_MAX, max(LOOK_BYTES_MIN, limit // 4))

    def weight(self, changes: int, size: int) -> int:
        """How many changes those of one record with so many bytes count for: each page is touched once by all of them."""
        if changes < WEIGHED_FROM:
            return changes
        file = self._p.state.file
        touched = (file.used_bytes() + PAGES_PER_BYTE * size) // (CHANGE_PAGES_MAX * file.page_bytes)
        return min(changes, touched + 1)

    def refusal(self) -> StoreFull:
        """Why a put is refused."""
        if self.full is None:
            self._hurry()
        return StoreFull(
            self.full or f"the rows of journal {self._p.name} are about to fill their map: open with more map_bytes"
        )

    def pressed(self) -> None:
        """Changes came: schedule a checkpoint, hurry it, or have callers wait for it."""
        p = self._p
        is_looked_at = p.settings.rotate_bytes is not None and not p.state.active.growth.is_moving
        bytes_max = self._bytes_from + (self._bytes_max if is_looked_at else BYTES_MAX)
        hold_bytes = self._bytes_from + HOLD_FACTOR * self._bytes_max if is_looked_at else p.log.bytes_limit
        if p.changes < self._changes_max and p.log.bytes_written < bytes_max:
            if not self._is_scheduled:
                self._schedule(AFTER_S)
            self.press_changes, self.press_bytes = self._changes_max, bytes_max
        elif p.changes < self._changes_max * HOLD_FACTOR and p.log.bytes_written < hold_bytes:
            self._hurry()
            self.press_changes = self._changes_max * HOLD_FACTOR
            self.press_bytes = hold_bytes
        else:
            self.is_hold_due = self.full is None

    def hold(self) -> None:
        """Callers are far ahead of the checkpoints, or a rotation is due: it is made now. Without the lock."""
        self.is_hold_due = False
        p = self._p
        try:
            p.keeper.call(p.generations.rotate_if_due if p.generations.is_due else self.run)
        except StoreFull as e:
            # Work that frees room goes on; puts are refused until a checkpoint succeeds.
            self.full, self.changes_room = str(e), 0

    def _schedule(self, seconds: float) -> None:
        self._is_scheduled = True
        self._p.keeper.after(seconds, self._run_later)

    def _hurry(self) -> None:
        if not self._is_hurried:
            self._is_hurried = True
            self._p.keeper.after(0, self._run_later)

    def _run_later(self) -> None:
        p = self._p
        self._is_scheduled = self._is_hurried = False
        if p.trouble is not None or not p.changes:
            return
        try:
            self.run()
        except StoreFull as e:
            log.warning("checkpoint_postponed journal=%s error=%s", p.name, e)
            self._schedule(RETRY_S)
        except StoreClosed:
            return

    def free_soon(self) -> None:
        """Schedule `free` if the log has parts that no consumer follows any more (V8). Under the lock."""
        if not self._is_freeing and self._has_unwanted():
            self._is_freeing = True
            self._p.keeper.after(AFTER_S, self.free)

    def free(self) -> None:
        """Remove the parts of the log that no consumer follows, although nothing changes (V8). On the keeper."""
        p = self._p
        self._is_freeing = False
        try:
            with p.commit.io, p.lock:
                if p.trouble is not None or not self._has_unwanted():
                    return
                with p.commit.final():
                    p.log.passed(p.log.passed_to)  # what needs no checkpoint first: the disk may be full
            p.generations.look_around()
            for _ in range(2):  # V3
                with p.lock:
                    if not p.log.has_unwanted():
                        return
                self.run()
        except StorageError as e:
            log.warning("log_kept journal=%s error=%s", p.name, e)  # the next checkpoint does it, or the next open

    def _has_unwanted(self) -> bool:
        """Whether the log has a part that no consumer follows. Under the lock."""
        p = self._p
        return p.log.has_unwanted() or any(
            k.has_log and k.last is not None and base_of(k.order) + k.last < p.log.keep_from for k in p.generations.kept
        )

    def run(self) -> None:
        """Commit what was applied."""
        p = self._p
        self.commit()
        with p.commit.final():
            p.log.extend_ahead()
        p.retention.look()
        p.compaction.look()
        p.generations.look_around()

    def commit(self, then: Callable[[], None] = lambda: None) -> None:
        """Sync the log and commit the rows, then call `then` before any other caller works. On the keeper."""
        p = self._p
        # Most of the log is synced before callers are held up, and the last commit (lmdb D5); what comes meanwhile is little.
        p.commit.sync_now()
        if p.trouble is not None:
            raise p.trouble
        try:
            p.state.file.sync()
            with p.commit.io, p.lock:
                if p.trouble is not None:
                    raise p.trouble
                if p.is_broken:
                    p.reload()
                started = perf_counter()
                changes = p.changes
                p.commit.sync_locked()  # V1
                try:
                    self.commit_rows()
                    self._pace((perf_counter() - started) * 1000, changes)
                    then()
                except StoreFull:
                    p.log.drop_spares()
                    p.reload()
                    raise
        except (StoreFull, StoreClosed):
            raise
        except StorageError as e:
            p.commit.fail(e if isinstance(e, StoreFailed) else StoreFailed(str(e)))
            raise

    def commit_rows(self) -> None:
        """Commit; the log is synced, and the lock and `io` are held."""
        p = self._p
        applied = p.log.end
        room = PAGES_PER_BYTE * (ROOM_BYTES + p.log.bytes_written - self._bytes_from)
        if p.state.older:
            p.generations.note_moves()
        p.state.keep(p.order, applied, stamp_of(p))
        p.state.active.keep_parts(p.state.older, commit_parts.tail_of(p.log))
        try:
            for rows in p.state.older:
                if rows.is_dirty:
                    rows.file.commit(room)
                    rows.file.sync()  # V6
                    rows.is_dirty = False
            p.state.file.commit(room)  # V2
        except StoreFull:
            p.state.use()
            raise
        p.state.use()
        p.state.active.growth.committed(p.state.file.used_bytes())
        p.changes = 0
        self.count += 1
        p.log.passed(self._before)  # V3
        self._before, self.applied = p.log.base + self.applied.offset, applied
        if p.log.position >= ROLL_BYTES or p.retention.is_roll_due():
            try:
                p.log.roll()
                p.retention.rolled()
            except StoreFull as e:
                log.warning("log_roll_postponed journal=%s error=%s", p.name, e)
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
