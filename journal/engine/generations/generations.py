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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from journal.core.entry import effects as fx
from journal.core.limits import NEVER, PAST_MAX
from journal.core.log.cursor import base_of
from journal.core.log.cursor_math import Span
from journal.core.periods import period_end
from journal.core.schema.schema import Schema
from journal.core.settings import Settings
from journal.core.values import Generation, Keeping
from journal.engine.files.disposal import Disposal, remove_left, reuse_spare
from journal.engine.files.lmdb import LmdbFile, create
from journal.engine.files.posix import durable_names, make_directory, remove_tree, storage_error
from journal.engine.generations.closed_logs import ClosedLogs
from journal.engine.generations.leftovers import survivors
from journal.engine.generations.migration import Carrying
from journal.engine.generations.report import tell
from journal.engine.log.durability import OS
from journal.engine.log.reader import UNNAMED, Place
from journal.engine.log.writer import Log
from journal.engine.snapshots.take import Snapshots
from journal.engine.state.file import DATABASES, Rows
from journal.errors import StorageError, StoreFailed, StoreFull

if TYPE_CHECKING:
    from journal.engine.pipeline import Pipeline

log = logging.getLogger("journal.generations")

NEXT = "next"


class Kept(NamedTuple):
    """What the catalog has of a generation."""

    order: int
    began: int
    last: int | None
    """The offset of its last change; None while it is active."""
    has_rows: bool
    has_log: bool
    schema: dict[str, Any] | None = None
    """Of the data that was put while it was active."""
    older: Sequence[dict[str, Any]] = ()
    """Schemas of data that moved to it from generations before it, oldest first."""


def _schemas(kept: Sequence[Kept]) -> list[dict[str, Any]]:
    """The schemas that the data of these generations may have, oldest first; one that comes twice only where it is newest."""
    found: list[dict[str, Any]] = []
    for each in (schema for k in reversed(kept) for schema in (k.schema, *reversed(k.older))):
        if each is not None and each not in found:
            found.append(each)
    return found[::-1]


def declared(settings: Settings) -> dict[str, Any] | None:
    """The schema that a new generation has."""
    return None if settings.schema is None else settings.schema.to_dict()


class Generations:
    """The generations of one journal. Changes happen on the keeper's thread."""

    first = 0
    """The order before which no change is this journal's, where generations are shared."""
    used = 0
    """Up to here orders are used up, for a journal that is about to be declared (former_names V2)."""

    def __init__(self, pipeline: Pipeline, kept: list[Kept]) -> None:
        self.kept = kept
        self.rotate_at = NEVER
        self._looked = 0
        """When a period was found empty, or could not be ended: the next boundary counts from there."""
        self.is_due = False
        self.record: Callable[[list[Kept]], None] = lambda kept: None
        """Set by the store: writes the list to the catalog, durable on return."""
        self.disposal = Disposal(pipeline.name)
        self.schema: Schema | None = None
        self.blank: dict[str, Any] | None = None
        """None for each field of the union, for reads."""
        self.pins = 0
        """Read transactions that are open on the rows of all generations: none is given up meanwhile. Under the lock."""
        self.snapshots = Snapshots()
        self._p = pipeline
        self._closed = ClosedLogs(pipeline.directory)
        self.carrying = Carrying(pipeline, self)
        self._on_schema: Callable[[], None] = lambda: None
        self.look_at_schema()
        self._on_schema = pipeline.look_at_settings

    # -- schemas ------------------------------------------------------------------------------------------------------

    def look_at_schema(self) -> None:
        """What is checked on put: the schema of the active generation."""
        kept = self.kept[-1].schema
        schema = None if kept is None else Schema.from_dict(kept)
        if schema != self.schema:  # the same object stays: data that was checked with it need not be checked again
            self.schema = schema
        union = self.union()
        self.blank = None if union is None else dict.fromkeys(field.name for field in union.fields)
        self._on_schema()

    def use_schema(self) -> None:
        """The settings changed: a generation in which nothing has happened takes the schema at once. On the keeper."""
        p = self._p
        with p.lock:
            schema = declared(p.settings)
            if p.log.next_offset == p.log.base and self.kept[-1].schema != schema:
                self._remember([*self.kept[:-1], self.kept[-1]._replace(schema=schema)])

    def union(self) -> Schema | None:
        """All fields that the data of this journal may have."""
        first = next(k.order for k in self.kept if k.has_rows)
        # A successor is kept beside its entry, in an older generation than the one in which it was put.
        kept = _schemas([k for k in self.kept if k.order >= first or k.has_log])
        return Schema.union(map(Schema.from_dict, kept)) if kept else None

    def note_moves(self) -> None:
        """Rows are about to be committed: the active ones may hold data of older generations (U5). Under the lock."""
        moved = [rows.order for rows in self._p.state.older if rows.has_moved]
        if not moved:
            return
        active = self.kept[-1]
        schemas = _schemas([k for k in self.kept[:-1] if k.order >= moved[0]])
        schemas = [each for each in schemas if each != active.schema]
        if any(each not in active.older for each in schemas):
            both = [*active.older, *(each for each in schemas if each not in active.older)]
            self._remember([*self.kept[:-1], active._replace(older=both)])
        for rows in self._p.state.older:
            rows.has_moved = False

    # -- when ---------------------------------------------------------------------------------------------------------

    def schedule(self) -> None:
        """The settings or the generation changed: when is the next rotation? Under the lock."""
        period = self._p.settings.rotate
        self.rotate_at = NEVER
        if period is not None:
            # After a step back it is at the next boundary but one at the latest, and not again at the one that it began at.
            latest = period_end(period_end(self._p.time.now(), period), period)
            self.rotate_at = min(period_end(max(self.kept[-1].began, self._looked), period), latest)
        self._p.timer_soon(self.rotate_at)

    def due(self) -> None:
        """The period is over; one in which nothing happened, but that survivors moved, is passed over. Under the lock."""
        p = self._p
        if p.log.next_offset - p.log.base == p.state.active.growth.carries:
            self._looked = p.time.now()
            self.schedule()
        else:
            self.rotate_at = NEVER
            self.is_due = p.checkpoints.is_hold_due = True

    def rotate_if_due(self) -> None:
        """On the keeper; several callers may have come for it."""
        if self.is_due:
            self.is_due = False
            order = self._p.order
            # A look for place may meet a timer, and with it another rotation: one is enough.
            if not self.carrying.delays_rotation() and self._p.order == order:
                self.rotate_due()

    def rotate_due(self) -> None:
        """Begin the generation that is due, if the disk has room for it. On the keeper."""
        p = self._p
        if p.trouble is not None:
            return
        try:
            self.rotate()
        except StoreFull as e:
            log.warning("rotation_postponed journal=%s error=%s", p.name, e)
            with p.lock:
                self._looked = p.time.now()
                self.schedule()

    # -- rotation -----------------------------------------------------------------------------------------------------

    def rotate_if_place(self) -> bool:
        """Begin a new generation if there is place, else a step towards it; whether it has begun. On the keeper (U4)."""
        if self.carrying.make_place():
            return False
        self.rotate()
        return True

    def rotate(self) -> None:
        """Begin a new generation. On the keeper, without the lock."""
        p = self._p
        try:
            with p.commit.final():
                fresh = self._prepare()
        except OSError as e:
            raise storage_error(e, f"cannot prepare a generation of journal {p.name}") from e
        p.checkpoints.commit(lambda: self._begin(fresh))
        self.look_around(is_rotated=True)

    def _prepare(self) -> Path:
        """The files of the coming generation, durable, under a name that no reader opens."""
        p = self._p
        fresh = p.top / NEXT
        if os.path.lexists(fresh):
            remove_tree(fresh)
        make_directory(fresh)
        make_directory(fresh / "log")
        create(fresh / "rows.mdb", DATABASES)
        reuse_spare(p.top, fresh / "rows.mdb", p.settings.on_empty)
        first = Log(fresh / "log", p.name.encode(), p.settings.segment_bytes_max)
        first.create()
        first.close()
        return fresh

    def _begin(self, fresh: Path) -> None:
        """Under the lock and `io`, all rows being committed: name the new generation, then use it (U2)."""
        p = self._p
        p.state.file.sync()  # U1
        self._give_up_empty()
        order = max(p.order, self.used) + 1
        now = p.time.now()
        old = p.log
        last = old.next_offset - old.base - 1
        directory = p.directory(order)
        before = p.state.generations
        file: LmdbFile | None = None
        following = p.log_of(order)
        try:
            with durable_names(p.top):
                if directory.exists():
                    remove_tree(directory)  # of a rotation that met a full disk: the catalog does not name it
                os.rename(fresh, directory)
            file = LmdbFile(directory / "rows.mdb", DATABASES, map_bytes=p.map_bytes, is_durable=True)
            rows = Rows(file, order)
            p.state.active.has_moved = False  # within it, as long as it was the active one
            p.state.move_to(rows)
            rows.growth.is_moving = True  # what it begins with is not its own (growth J1)
            following.stamp = max(old.stamp, now)
            rows.keep(order, Place(0, 0, 0), following.stamp)
            rows.keep_parts(p.state.older, b"")
            file.commit()
            file.sync()
            rows.growth.committed(file.used_bytes())
            following.open_at(Place(0, 0, 0), Place(0, 0, 0), is_clean=True)
            closed = self.kept[-1]._replace(last=last, has_log=last >= 0 and old.keep_from <= old.base + last)
            kept = [*self.kept[:-1], closed, Kept(order, now, None, True, True, declared(p.settings))]
            self.record(kept)
        except BaseException as e:
            p.state.use(before)
            following.close()
            if file is not None:
                file.abandon()
            error = storage_error(e, f"cannot begin the generation {directory}") if isinstance(e, OSError) else e
            if isinstance(error, StoreFull):  # after any other error the catalog may name it (catalog A4)
                self._take_back(directory)
            raise error from e
        self.kept = kept
        self.look_at_schema()
        following.keep_from = old.keep_from
        p.state.use()
        p.order, p.log = order, following
        p.commit.use(following)
        # Whatever was due, or waited for place, was about the generation before.
        self.is_due = p.checkpoints.is_hold_due = self.carrying.is_awaited = False
        p.checkpoints.opened(Place(0, 0, 0))
        old.close()
        p.followers.tell()
        if not closed.has_log:
            self._dispose_of_log(closed.order, old.directory)
        self.schedule()
        log.info("generation_begins journal=%s order=%d last=%d", p.name, order, last)

    @staticmethod
    def _take_back(directory: Path) -> None:
        """There was no room for a generation."""
        try:
            if directory.exists():
                remove_tree(directory)
        except OSError as e:
            log.warning(
                "generation_not_removed path=%s error=%s", directory, e
            )  # the next rotation does it, or the next open

    # -- the old ones -------------------------------------------------------------------------------------------------

    def look_around(self, *, is_rotated: bool = False) -> None:
        """After a checkpoint: give up rows that are empty, and begin to move few survivors. On the keeper."""
        p = self._p
        if len(p.state.generations) == 1 and not any(k.last is not None and k.has_log for k in self.kept):
            return
        with p.commit.io, p.lock:
            if p.trouble is not None or p.is_broken:
                return
            try:
                self._give_up_empty()
                self._let_logs_go()
            except StoreFull as e:
                log.warning("generations_kept journal=%s error=%s", p.name, e)  # the next checkpoint looks again
            except StorageError as e:
                # A sync that failed says nothing the next time: what rests on it must not be given up then (U3).
                p.commit.fail(e if isinstance(e, StoreFailed) else StoreFailed(str(e)))
                raise
        if is_rotated or len(p.state.generations) > p.settings.generations_max:
            self.carrying.soon()

    def _give_up_empty(self) -> None:
        """Under the lock and `io`."""
        p = self._p
        empty = [rows for rows in p.state.older if rows.is_empty and not rows.is_dirty]
        if not empty or self.pins:
            return
        p.state.file.sync()  # U3: after a lost commit of the active generation their rows would be needed again
        orders = {rows.order for rows in empty}
        self._remember([k._replace(has_rows=False) if k.order in orders else k for k in self.kept])
        p.state.use([rows for rows in p.state.generations if rows not in empty])
        for rows in empty:
            rows.file.abandon()
        for rows in empty:
            log.info("generation_drained journal=%s order=%d", p.name, rows.order)
            directory = p.directory(rows.order)
            try:
                if next(k for k in self.kept if k.order == rows.order).has_log:
                    gone = p.top / f"{rows.order:06d}-rows.gone"
                    make_directory(gone)
                    for name in ("rows.mdb", "rows.mdb-lock"):
                        os.rename(directory / name, gone / name)
                else:
                    gone = p.top / f"{rows.order:06d}.gone"
                    os.rename(directory, gone)
            except OSError as e:
                log.warning("generation_not_removed path=%s error=%s", directory, e)  # the next open does it (U2)
            else:
                self.disposal.take(gone, p.settings.on_empty, p.settings.wipe)

    def _let_logs_go(self) -> None:
        """Dispose of the logs that no consumer follows any more."""
        p = self._p
        gone = [
            k
            for k in self.kept
            if k.last is not None and k.has_log and (k.last < 0 or base_of(k.order) + k.last < p.log.keep_from)
        ]
        if not gone:
            return
        orders = {k.order for k in gone}
        self._remember([k._replace(has_log=False) if k.order in orders else k for k in self.kept])
        for k in gone:
            self._dispose_of_log(k.order, p.directory(k.order) / "log" if k.has_rows else p.directory(k.order))

    def _dispose_of_log(self, order: int, directory: Path) -> None:
        """Rename it first to a name that no reader opens, so that a part of it is never taken for the whole."""
        p = self._p
        gone = p.top / f"{order:06d}-log.gone"
        try:
            os.rename(directory, gone)
        except OSError as e:
            log.warning("log_not_removed path=%s error=%s", directory, e)  # the next open does it (U2)
        else:
            self.disposal.take(gone, "delete", p.settings.wipe)

    def dispose_of_segment(self, path: Path) -> None:
        """
        A file of the log that goes before its generation does. What is to be wiped gets a name first that the next open
        would wipe (disposal N3), durable before the log is without it: that would be too late after a power cut.
        """
        p = self._p
        if not p.settings.wipe or path.name == UNNAMED:
            remove_left(path, p.settings.wipe)
        elif path.exists():
            gone = p.top / f"{path.parent.parent.name}-{path.stem}.gone"
            with durable_names(p.top):
                os.rename(path, gone)
            self.disposal.take(gone, "delete", wipe=True)

    def _remember(self, kept: list[Kept]) -> None:
        gone = [k for k in kept if not k.has_rows and not k.has_log]
        forgotten = {k.order for k in gone[: max(0, len(gone) - PAST_MAX)]}
        kept = [k for k in kept if k.order not in forgotten]
        self.record(kept)
        self.kept = kept
        self.look_at_schema()

    def survivors(self, rows: Rows, with_leased: bool) -> tuple[bytes, fx.Carry] | None:
        """What the next step moves, and whose it is; None when nothing is left that may move."""
        effect = survivors(self._p.state, rows, with_leased=with_leased)
        return None if effect is None else (b"", effect)

    def move(self, name: bytes, effect: fx.Carry, now: int) -> None:
        """Make a step."""
        p = self._p
        p.write(effect, 1, now, min(p.level, OS), lambda at: p.state.apply(effect, at), is_essential=True)

    # -- cursors ------------------------------------------------------------------------------------------------------

    def spans(self) -> list[Span]:
        """The log as a row of generations. Under the lock."""
        p = self._p
        oldest = p.log.oldest if p.is_writable else 0
        active = Span(self.kept[-1].order, p.log.end.offset - 1, is_closed=False, oldest=oldest)
        return [*self.closed_logs().spans, active]

    def closed_logs(self) -> ClosedLogs:
        """The logs of all generations but the active one. Under the lock."""
        return self._closed.look(self.kept)

    # -- telling ------------------------------------------------------------------------------------------------------

    @property
    def is_compacting(self) -> bool:
        """Whether logs are kept for later followers."""
        return self._p.settings.compact

    def newest(self) -> Generation:
        """The active one. Under the lock, with LMDB having all entries."""
        return tell(self._p, self.kept[-1:], self._p.state.generations)[0]

    def list(self) -> list[Generation]:
        """All that the catalog still lists, oldest first. Under the lock, with LMDB having all entries."""
        return tell(self._p, self.kept, self._p.state.generations)

    def leased(self, rows: Rows) -> tuple[int, Keeping | None]:
        """How many entries of a generation are under a lease, and the one whose lease ends last."""
        held = [held for held in self._p.state.leases.by_token.values() if held.home is rows]
        last = max(held, key=lambda each: each.deadline, default=None)
        return len(held), None if last is None else Keeping(last.key, last.deadline)
