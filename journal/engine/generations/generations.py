"""
The generations of a journal: when a new one begins, and what becomes of the old ones.

    active     takes inserts; its log takes all records          draining   its rows are only taken out
    closed     its rows are gone; its log is there for followers  gone       only its last offset is known

U1  All older rows are committed and durable when a generation begins, so recovery needs the active log only.
U2  The catalog names a generation after its files are durable; that is the moment it begins. What the catalog does not
    name is removed at the next open.
U3  Rows are given up only when they are empty as of a durable checkpoint of the active generation.
U4  There is place for a generation before it begins: survivors of older ones move to the active one (migration B2).
U5  The catalog lists the schemas that the data in a generation may have before its rows are committed: an entry that
    moves to another generation takes its schema with it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from journal.core.entry import effects as fx
from journal.core.limits import NEVER, PAST_MAX
from journal.core.log.cursor import base_of
from journal.core.log.cursor_math import Span
from journal.core.periods import period_end
from journal.core.schema.schema import Schema
from journal.core.values import Generation, Keeping
from journal.engine.feed.consumers import LogConsumers
from journal.engine.files.disposal import Disposal, remove_left
from journal.engine.files.lmdb import LmdbFile
from journal.engine.files.posix import durable_names, make_directory, remove_tree, storage_error
from journal.engine.generations.files import prepare, take_back
from journal.engine.generations.leftovers import survivors
from journal.engine.generations.migration import Migration
from journal.engine.generations.report import Report, leased_in
from journal.engine.generations.schemas import declared, schemas_of
from journal.engine.generations.view import RotatedHost
from journal.engine.log.closed_logs import ClosedLogs
from journal.engine.log.generation_record import GenerationRecord
from journal.engine.log.group_commit import GroupCommit
from journal.engine.log.reader import UNNAMED, RecordPlace
from journal.engine.log.segment import OpenedSegment
from journal.engine.log.writer import LogWriter
from journal.engine.runtime.background import Keeper
from journal.engine.runtime.clock import EngineTime
from journal.engine.state.apply import JournalState
from journal.engine.state.file import DATABASES, GenerationRows
from journal.errors import StorageError, StoreFailed, StoreFull

log = logging.getLogger("journal.generations")


class Generations:
    """The generations of one journal. Changes happen on the keeper's thread."""

    first = 0
    """The order before which no change is this journal's, where generations are shared."""

    def __init__(
        self, host: RotatedHost, kept: list[GenerationRecord], log: LogWriter, state: JournalState, consumers: LogConsumers, *,
        commit: GroupCommit, keeper: Keeper, time: EngineTime, map_bytes: int, record: Callable[[list[GenerationRecord]], None],
    ) -> None:  # fmt: skip
        """`record` writes the list to the catalog, durable on return."""
        self.kept = kept
        self.rotate_at = NEVER
        self.is_due = False
        self.disposal = Disposal(host.name)
        self.schema: Schema | None = None
        self.blank: dict[str, Any] | None = None
        """None for each field of the union, for reads."""
        self._host, self._log, self._state, self._consumers = host, log, state, consumers
        self._commit, self._time, self._map_bytes, self._record = commit, time, map_bytes, record
        self._used = 0
        """Up to here orders are used up, for a journal that is about to be declared (former_names N2)."""
        self._looked = 0
        """When a period was found empty, or could not be ended: the next boundary counts from there."""
        self._pins = 0
        """Read transactions that are open on the rows of all generations: none is given up meanwhile. Under the lock."""
        self._closed = ClosedLogs(host.directory)
        self.migration = Migration(host, self, log, state, keeper)
        self._look_at_schema()

    def pin(self) -> None:
        """Read transactions are open on the rows of all generations: none is given up until `unpin`. Under the lock."""
        self._pins += 1

    def unpin(self) -> None:
        """Under the lock."""
        self._pins -= 1

    @property
    def is_pinned(self) -> bool:
        """Whether read transactions are open on the rows. Under the lock."""
        return self._pins > 0

    # -- schemas ------------------------------------------------------------------------------------------------------

    def look_at_schema(self) -> None:
        """The list of generations has changed, and with it what is checked on put. Under the lock."""
        self._look_at_schema()
        self._host.look_at_settings()

    def _look_at_schema(self) -> None:
        kept = self.kept[-1].schema
        schema = None if kept is None else Schema.from_dict(kept)
        if schema != self.schema:  # the same object stays: data that was checked with it need not be checked again
            self.schema = schema
        union = self.union()
        self.blank = None if union is None else dict.fromkeys(field.name for field in union.fields)

    def use_schema(self) -> None:
        """The settings changed: a generation in which nothing has happened takes the schema at once. On the keeper."""
        with self._host.lock:
            schema = declared(self._host.settings)
            if self._log.next_offset == self._log.base and self.kept[-1].schema != schema:
                self._remember([*self.kept[:-1], self.kept[-1]._replace(schema=schema)])

    def union(self) -> Schema | None:
        """All fields that the data of this journal may have."""
        first = next(k.order for k in self.kept if k.has_rows)
        # A successor is kept beside its entry, in an older generation than the one in which it was put.
        kept = schemas_of([k for k in self.kept if k.order >= first or k.has_log])
        return Schema.union(map(Schema.from_dict, kept)) if kept else None

    def note_moves(self) -> None:
        """Rows are about to be committed: the active ones may hold data of older generations (U5). Under the lock."""
        moved = [rows.order for rows in self._state.older if rows.has_moved]
        if not moved:
            return
        active = self.kept[-1]
        schemas = schemas_of([k for k in self.kept[:-1] if k.order >= moved[0]])
        schemas = [each for each in schemas if each != active.schema]
        if any(each not in active.older for each in schemas):
            both = [*active.older, *(each for each in schemas if each not in active.older)]
            self._remember([*self.kept[:-1], active._replace(older=both)])
        for rows in self._state.older:
            rows.has_moved = False

    # -- when ---------------------------------------------------------------------------------------------------------

    def schedule(self) -> None:
        """The settings or the generation changed: when is the next rotation? Under the lock."""
        period = self._host.settings.rotate
        self.rotate_at = NEVER
        if period is not None:
            # After a step back it is at the next boundary but one at the latest, and not again at the one that it began at.
            latest = period_end(period_end(self._time.now(), period), period)
            self.rotate_at = min(period_end(max(self.kept[-1].began, self._looked), period), latest)
        self._host.timer_soon(self.rotate_at)

    def due(self) -> None:
        """The period is over; one in which nothing happened, but that survivors moved, is passed over. Under the lock."""
        if self._log.next_offset - self._log.base == self._state.active.growth.carries:
            self._looked = self._time.now()
            self.schedule()
        else:
            self.rotate_at = NEVER
            self.is_due = True
            self._host.hold_callers()

    def grown(self) -> bool:
        """Whether the active generation has grown so far that the next one is due, from now on. Under the lock, after a commit."""
        limit = self._host.settings.rotate_bytes
        if limit is None or self._state.active.growth.own_bytes < limit or self.migration.is_awaited:
            return False
        self.is_due = True
        return True

    def rotate_if_due(self) -> None:
        """On the keeper; several callers may have come for it."""
        if self.is_due:
            self.is_due = False
            order = self.kept[-1].order
            # A look for place may meet a timer, and with it another rotation: one is enough.
            if not self.migration.delays_rotation() and self.kept[-1].order == order:
                self.rotate_due()

    def rotate_due(self) -> None:
        """Begin the generation that is due, if the disk has room for it. On the keeper."""
        host = self._host
        if host.trouble is not None:
            return
        try:
            self.rotate()
        except StoreFull as e:
            log.warning("rotation_postponed journal=%s error=%s", host.name, e)
            with host.lock:
                self._looked = self._time.now()
                self.schedule()

    # -- rotation -----------------------------------------------------------------------------------------------------

    def rotate_if_place(self) -> bool:
        """Begin a new generation if there is place, else a step towards it; whether it has begun. On the keeper (U4)."""
        if self.migration.make_place():
            return False
        self.rotate()
        return True

    def pause_s(self) -> float:
        """How long to wait before the next step towards place."""
        return self.migration.pause_s()

    def rotate_beyond(self, order: int) -> None:
        """Begin a generation whose order is higher than this one, too. On the keeper, without the lock."""
        self._used = order
        self.rotate()

    def rotate(self) -> None:
        """Begin a new generation. On the keeper, without the lock."""
        host = self._host
        try:
            with self._commit.final():
                fresh = prepare(host.top, host.name, host.settings.on_empty)
        except OSError as e:
            raise storage_error(e, f"cannot prepare a generation of journal {host.name}") from e
        host.commit_then(lambda: self._begin(fresh))
        self.look_around(is_rotated=True)

    def _begin(self, fresh: Path) -> None:
        """Under the lock and `io`, all rows being committed: name the new generation, then use it (U2)."""
        host, state, writer = self._host, self._state, self._log
        state.file.sync()  # U1
        self._give_up_empty()
        order = max(self.kept[-1].order, self._used) + 1
        now = self._time.now()
        stamp = max(writer.stamp, now)
        last = writer.next_offset - writer.base - 1
        old_log, directory = writer.directory, host.directory(order)
        before = state.generations
        file: LmdbFile | None = None
        opened: OpenedSegment | None = None
        try:
            with durable_names(host.top):
                if directory.exists():
                    remove_tree(directory)  # of a rotation that met a full disk: the catalog does not name it
                os.rename(fresh, directory)
            file = LmdbFile(directory / "rows.mdb", DATABASES, map_bytes=self._map_bytes, is_durable=True)
            rows = GenerationRows(file, order)
            state.active.has_moved = False  # within it, as long as it was the active one
            state.move_to(rows)
            rows.growth.is_moving = True  # what it begins with is not its own (growth W1)
            rows.keep(order, RecordPlace(0, 0, 0), stamp)
            rows.keep_parts(state.older, b"")
            file.commit()
            file.sync()
            rows.growth.committed(file.used_bytes())
            opened = OpenedSegment.open(directory / "log")
            closed = self.kept[-1]._replace(last=last, has_log=last >= 0 and writer.keep_from <= writer.base + last)
            active = GenerationRecord(order, now, None, True, True, declared(host.settings))
            kept = [*self.kept[:-1], closed, active]
            self._record(kept)
        except BaseException as e:
            state.use(before)
            if opened is not None:
                opened.close()
            if file is not None:
                file.abandon()
            error = storage_error(e, f"cannot begin the generation {directory}") if isinstance(e, OSError) else e
            if isinstance(error, StoreFull):  # after any other error the catalog may name it (catalog A4)
                take_back(directory)
            raise error from e
        self.kept = kept
        self.look_at_schema()
        state.use()
        writer.stamp = stamp
        writer.move_to(opened, base_of(order))
        # Whatever was due, or waited for place, was about the generation before.
        self.is_due = self.migration.is_awaited = False
        host.moved_on(order)
        if not closed.has_log:
            self._dispose_of_log(closed.order, old_log)
        self.schedule()
        log.info("generation_begins journal=%s order=%d last=%d", host.name, order, last)

    # -- the old ones -------------------------------------------------------------------------------------------------

    def look_around(self, *, is_rotated: bool = False) -> None:
        """After a checkpoint: give up rows that are empty, and begin to move few survivors. On the keeper."""
        host, state = self._host, self._state
        if len(state.generations) == 1 and not any(k.last is not None and k.has_log for k in self.kept):
            return
        with self._commit.io, host.lock:
            if host.trouble is not None or host.is_broken:
                return
            try:
                self._give_up_empty()
                self._let_logs_go()
            except StoreFull as e:
                log.warning("generations_kept journal=%s error=%s", host.name, e)  # the next checkpoint looks again
            except StorageError as e:
                # A sync that failed says nothing the next time: what rests on it must not be given up then (U3).
                self._commit.fail(e if isinstance(e, StoreFailed) else StoreFailed(str(e)))
                raise
        if is_rotated or len(state.generations) > host.settings.generations_max:
            self.migration.soon()

    def _give_up_empty(self) -> None:
        """Under the lock and `io`."""
        host, state = self._host, self._state
        empty = [rows for rows in state.older if rows.is_empty and not rows.is_dirty]
        if not empty or self._pins:
            return
        state.file.sync()  # U3: after a lost commit of the active generation their rows would be needed again
        orders = {rows.order for rows in empty}
        self._remember([k._replace(has_rows=False) if k.order in orders else k for k in self.kept])
        state.use([rows for rows in state.generations if rows not in empty])
        for rows in empty:
            rows.file.abandon()
        for rows in empty:
            log.info("generation_drained journal=%s order=%d", host.name, rows.order)
            directory = host.directory(rows.order)
            try:
                if next(k for k in self.kept if k.order == rows.order).has_log:
                    gone = host.top / f"{rows.order:06d}-rows.gone"
                    make_directory(gone)
                    for name in ("rows.mdb", "rows.mdb-lock"):
                        os.rename(directory / name, gone / name)
                else:
                    gone = host.top / f"{rows.order:06d}.gone"
                    os.rename(directory, gone)
            except OSError as e:
                log.warning("generation_not_removed path=%s error=%s", directory, e)  # the next open does it (U2)
            else:
                self.disposal.take(gone, host.settings.on_empty, host.settings.wipe)

    def _let_logs_go(self) -> None:
        """Dispose of the logs that no consumer follows any more."""
        keep_from = self._log.keep_from
        gone = [
            k
            for k in self.kept
            if k.last is not None and k.has_log and (k.last < 0 or base_of(k.order) + k.last < keep_from)
        ]
        if not gone:
            return
        orders = {k.order for k in gone}
        self._remember([k._replace(has_log=False) if k.order in orders else k for k in self.kept])
        for k in gone:
            directory = self._host.directory(k.order)
            self._dispose_of_log(k.order, directory / "log" if k.has_rows else directory)

    def _dispose_of_log(self, order: int, directory: Path) -> None:
        """Rename it first to a name that no reader opens, so that a part of it is never taken for the whole."""
        gone = self._host.top / f"{order:06d}-log.gone"
        try:
            os.rename(directory, gone)
        except OSError as e:
            log.warning("log_not_removed path=%s error=%s", directory, e)  # the next open does it (U2)
        else:
            self.disposal.take(gone, "delete", self._host.settings.wipe)

    def dispose_of_segment(self, path: Path) -> None:
        """
        A file of the log that goes before its generation does. What is to be wiped gets a name first that the next open
        would wipe (disposal N3), durable before the log is without it: that would be too late after a power cut.
        """
        top, wipe = self._host.top, self._host.settings.wipe
        if not wipe or path.name == UNNAMED:
            remove_left(path, wipe)
        elif path.exists():
            gone = top / f"{path.parent.parent.name}-{path.stem}.gone"
            with durable_names(top):
                os.rename(path, gone)
            self.disposal.take(gone, "delete", wipe=True)

    def _remember(self, kept: list[GenerationRecord]) -> None:
        gone = [k for k in kept if not k.has_rows and not k.has_log]
        forgotten = {k.order for k in gone[: max(0, len(gone) - PAST_MAX)]}
        kept = [k for k in kept if k.order not in forgotten]
        self._record(kept)
        self.kept = kept
        self.look_at_schema()

    def survivors(self, rows: GenerationRows, with_leased: bool) -> tuple[bytes, fx.Carry] | None:
        """What the next step moves, and whose it is; None when nothing is left that may move."""
        effect = survivors(self._state, rows, with_leased=with_leased)
        return None if effect is None else (b"", effect)

    def move(self, name: bytes, effect: fx.Carry, now: int) -> None:
        """Make a step."""
        self._host.write_unawaited(effect, 1, now)

    # -- cursors ------------------------------------------------------------------------------------------------------

    def spans(self) -> list[Span]:
        """The log as a row of generations. Under the lock."""
        writer = self._log
        active = Span(self.kept[-1].order, writer.end.offset - 1, is_closed=False, oldest=writer.oldest)
        return [*self.closed_logs().spans, active]

    def closed_logs(self) -> ClosedLogs:
        """The logs of all generations but the active one. Under the lock."""
        return self._closed.look(self.kept)

    @property
    def is_compacting(self) -> bool:
        """Whether logs are kept for later followers."""
        return self._host.settings.compact

    # -- telling ------------------------------------------------------------------------------------------------------

    def newest(self) -> Generation:
        """The active one. Under the lock, with LMDB having all entries."""
        return self._report().tell(self.kept[-1:], self._state.generations)[0]

    def list(self) -> list[Generation]:
        """All that the catalog still lists, oldest first. Under the lock, with LMDB having all entries."""
        return self._report().tell(self.kept, self._state.generations)

    def _report(self) -> Report:
        return Report(self._log.end.offset - 1, self._consumers.known, self.leased, self.is_compacting)

    def leased(self, rows: GenerationRows) -> tuple[int, Keeping | None]:
        """How many entries of a generation are under a lease, and the one whose lease ends last."""
        return leased_in(self._state, rows)
