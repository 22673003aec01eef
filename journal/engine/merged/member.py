"""
What a merged journal sees of the generations and the feed consumers that it shares with other journals.

Schemas: generations are begun for all merged journals at once, so a journal keeps from which order on which schema counts
(`steps`), and a rotation writes nothing for it.

Consumers: the names of one journal's feed consumers say nothing about another's. In the offset log they are kept under
`<journal>:<consumer>`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from journal.core.entry import effects as fx
from journal.core.entry.rows import PROCESSING, decode_entry, decode_lease
from journal.core.limits import NEVER
from journal.core.log.cursor import Cursor
from journal.core.log.cursor_math import Span
from journal.core.schema.schema import Schema
from journal.core.values import Keeping
from journal.engine.feed.changes import check_life
from journal.engine.feed.consumers import Consumers, FeedConsumer, FeedView
from journal.engine.files.disposal import Disposal
from journal.engine.generations.closed_logs import ClosedLogs
from journal.engine.generations.generations import Generations, Kept, declared
from journal.engine.generations.leftovers import survivors
from journal.engine.generations.migration import Carrying
from journal.engine.merged.rows import behind, name_in, unprefixed
from journal.engine.snapshots.take import Snapshots
from journal.engine.state.file import Rows

if TYPE_CHECKING:
    import threading

    from journal.engine.feed.feed import EngineFeed
    from journal.engine.merged.sequence import Member, Merging, Sequence
    from journal.engine.pipeline import Pipeline


class MergedGenerations(Generations):
    """The generations that merged journals share."""

    _p: Sequence

    def survivors(self, rows: Rows, with_leased: bool) -> tuple[bytes, fx.Carry] | None:
        """What the next step moves, and whose it is; journals of which nothing may move are passed over."""
        p = self._p
        for database in (rows.entries, rows.buried):
            cursor = rows.cursor(db=database)
            found = cursor.first()
            while found:
                name = name_in(cursor.key())
                state = p.state.state_of(name)
                view = next(view for view in state.generations if view.order == rows.order)
                effect = survivors(state, view, with_leased=with_leased)
                if effect is not None:
                    return name, effect
                found = cursor.set_range(behind(name))
        return None

    def move(self, name: bytes, effect: fx.Carry, now: int) -> None:
        """Make a step."""
        self._p.write_for(name, effect, 1, now)

    def leased(self, rows: Rows) -> tuple[int, Keeping | None]:
        """How many entries of a generation are under a lease, and the one whose lease ends last, of all journals."""
        self._p.state.save_leases()
        count, last, deadline = 0, b"", -1
        for name, value in rows.all(rows.leases):
            if value[4] == PROCESSING:
                count += 1
                lease = decode_lease(unprefixed(name), value)
                ends = self._p.state.steps.moved_lease(lease).deadline
                if ends > deadline:
                    last, deadline = name, ends
        entry = rows.get(last, db=rows.entries) if count else None
        return count, None if entry is None else Keeping(decode_entry(unprefixed(last), entry).key, deadline)


class MemberGenerations(Generations):
    """The same for one journal, with its own schemas."""

    def __init__(self, member: Member, shared: Merging, steps: list[Kept]) -> None:
        self._p: Member = member
        self._shared = shared
        self.steps = steps
        """From the order of each on its schema counts."""
        self.record: Callable[[list[Kept]], None] = lambda steps: None
        """Set by the store: writes the steps to the catalog, durable on return."""
        self.rotate_at = NEVER
        self._schema: Schema | None = None
        self.look_at_schema()

    @property
    def first(self) -> int:  # type: ignore[override]
        """The generation of the journal's declaration: earlier cursors are of a former life, or of other journals (former_names V2)."""
        return self.steps[0].order

    @property
    def kept(self) -> list[Kept]:  # type: ignore[override]
        """What the catalog has of the generations."""
        return self._shared.generations.kept

    @property
    def is_due(self) -> bool:  # type: ignore[override]
        """Whether a rotation is due."""
        return self._shared.generations.is_due

    @property
    def schema(self) -> Schema | None:  # type: ignore[override]
        """What is checked on put: the schema of the active generation."""
        self.look_again()
        return self._schema

    def look_again(self) -> bool:
        """Look at the schemas if the generations have changed since; whether they had."""
        if self._seen is self.kept:
            return False
        self.look_at_schema()
        return True

    @property
    def blank(self) -> dict[str, None] | None:  # type: ignore[override]
        """All fields of the schemas, with None."""
        if self._seen is not self.kept:
            self.look_at_schema()
        return self._blank

    @property
    def disposal(self) -> Disposal:  # type: ignore[override]
        """Where given up files go."""
        return self._shared.generations.disposal

    @property
    def carrying(self) -> Carrying:  # type: ignore[override]
        """What moves survivors."""
        return self._shared.generations.carrying

    @property
    def snapshots(self) -> Snapshots:  # type: ignore[override]
        """Those that are being made of what all share."""
        return self._shared.generations.snapshots

    @property
    def pins(self) -> int:
        """Read transactions that are open on the rows of all generations."""
        return self._shared.generations.pins

    @pins.setter
    def pins(self, pins: int) -> None:
        self._shared.generations.pins = pins

    def look_at_schema(self) -> None:
        """The generations, or the steps, have changed."""
        self._seen = self.kept
        kept = self._schema_at(self._seen[-1].order)
        schema = None if kept is None else Schema.from_dict(kept)
        if schema != self._schema:  # the same object stays: data that was checked with it need not be checked again
            self._schema = schema
        union = self.union()
        self._blank = None if union is None else dict.fromkeys(field.name for field in union.fields)

    def _schema_at(self, order: int) -> dict[str, object] | None:
        return next((step.schema for step in reversed(self.steps) if step.order <= order), None)

    def use_schema(self) -> None:
        """The settings changed: another schema counts from the next generation on, or from an untouched one."""
        p = self._p
        with p.lock:
            schema = declared(p.settings)
            if self.steps[-1].schema == schema:
                return
            order = p.order if p.log.next_offset == p.log.base else p.order + 1
            steps = [step for step in self.steps if step.order < order]
            steps.append(Kept(order, p.time.now(), None, True, True, schema))
            self.record(steps)
            self.steps = steps
            self.look_at_schema()
            p.look_at_settings()

    def union(self) -> Schema | None:
        """All fields that the data of this journal may have: entries move to other generations, so none is forgotten."""
        active = self.kept[-1].order
        found = [
            Schema.from_dict(step.schema) for step in self.steps if step.schema is not None and step.order <= active
        ]
        return Schema.union(found) if found else None

    def schedule(self) -> None:
        """Rotations are no member's."""

    def rotate(self) -> None:
        """Begin a new generation, for all."""
        self._shared.generations.rotate()

    def spans(self) -> list[Span]:
        """The log that all share, as a row of generations."""
        return self._shared.generations.spans()

    def closed_logs(self) -> ClosedLogs:
        """The logs that all share, but the active one."""
        return self._shared.generations.closed_logs()

    @property
    def is_compacting(self) -> bool:
        """Whether logs are kept for later followers."""
        return self._shared.settings.compact


class MemberConsumers(Consumers):
    """The feed consumers of one merged journal."""

    def __init__(self, p: Pipeline, consumers: Consumers, name: str) -> None:
        """`name`: of the journal; empty for consumers that follow all journals."""
        self._all = consumers
        self._p = p
        self._scope = f"{name}:"

    @property
    def lock(self) -> threading.Lock:  # type: ignore[override]
        """Guards what is acknowledged."""
        return self._all.lock

    @property
    def is_closed(self) -> bool:  # type: ignore[override]
        """Whether nothing is acknowledged any more."""
        return self._all.is_closed

    @property
    def directory(self) -> Path:  # type: ignore[override]
        """Where the offset log is."""
        return self._all.directory

    @property
    def known(self) -> dict[str, FeedConsumer]:  # type: ignore[override]
        """By the names that the journal calls them by."""
        scope = self._scope
        return {name[len(scope) :]: each for name, each in self._all.known.items() if name.startswith(scope)}

    def look(self) -> None:
        """Read the offset log of a store that another process owns."""
        self._all.look()

    def touched(self, consumer: FeedConsumer) -> None:
        """Something of a consumer is to be written soon."""
        self._all.touched(consumer)

    def flush(self) -> None:
        """Write what has changed."""
        self._all.flush()

    def attach(
        self, name: str, start: str | Cursor, *, is_copy: bool, make: Callable[[FeedConsumer], EngineFeed]
    ) -> EngineFeed:
        """Open the feed of a consumer."""
        if self._scope + name not in self._all.known:
            check_life(self._p, start)
        return self._all.attach(self._scope + name, start, is_copy=is_copy, make=make)

    def remove(self, name: str) -> None:
        """Forget a consumer."""
        self._all.remove(self._scope + name)

    def mark(self, name: str, cursor: Cursor) -> None:
        """Set a position."""
        check_life(self._p, cursor)
        self._all.mark(self._scope + name, cursor)

    def skip(self, name: str, cursor: Cursor) -> bool:
        """Acknowledge one change that was not delivered."""
        return self._all.skip(self._scope + name, cursor)

    def views(self) -> list[FeedView]:
        """The view of each consumer of this journal, by name."""
        scope = self._scope
        return [
            view._replace(name=view.name[len(scope) :]) for view in self._all.views() if view.name.startswith(scope)
        ]
