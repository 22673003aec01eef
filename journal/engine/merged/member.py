"""
What a merged journal sees of the generations and the feed consumers that it shares with other journals.

Schemas: generations are begun for all merged journals at once, so a journal keeps from which order on which schema counts
(`steps`), and a rotation writes nothing for it.

Consumers: the names of one journal's feed consumers say nothing about another's. In the offset log they are kept under
`<journal>:<consumer>`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from journal.core.entry import effects as fx
from journal.core.entry.rows import PROCESSING, decode_entry, decode_lease
from journal.core.limits import NEVER
from journal.core.log.cursor import Cursor
from journal.core.schema.schema import Schema
from journal.core.values import FeedView, Generation, Keeping
from journal.engine.feed.changes import check_life
from journal.engine.feed.consumer import Consumers, FeedConsumer
from journal.engine.feed.log_tail import FollowedJournal
from journal.engine.generations.generations import Generations
from journal.engine.generations.leftovers import survivors
from journal.engine.generations.report import Report, leased_in
from journal.engine.generations.schemas import declared
from journal.engine.generations.view import RotatedHost
from journal.engine.log.generation_record import GenerationRecord
from journal.engine.merged.rows import behind, name_in, unprefixed
from journal.engine.merged.states import Namespaces
from journal.engine.pipeline import Pipeline
from journal.engine.state.file import GenerationRows

if TYPE_CHECKING:
    from journal.engine.feed.feed import EngineFeed


class MergedHost(RotatedHost, Protocol):
    """What merged journals share."""

    def write_for(self, name: bytes, effect: fx.Effect, count: int, now: int) -> None: ...


class MergedGenerations(Generations):
    """The generations that merged journals share."""

    _host: MergedHost
    _state: Namespaces

    def survivors(self, rows: GenerationRows, with_leased: bool) -> tuple[bytes, fx.Carry] | None:
        """What the next step moves, and whose it is; journals of which nothing may move are passed over."""
        for database in (rows.entries, rows.buried):
            cursor = rows.cursor(db=database)
            found = cursor.first()
            while found:
                name = name_in(cursor.key())
                state = self._state.state_of(name)
                view = next(view for view in state.generations if view.order == rows.order)
                effect = survivors(state, view, with_leased=with_leased)
                if effect is not None:
                    return name, effect
                found = cursor.set_range(behind(name))
        return None

    def move(self, name: bytes, effect: fx.Carry, now: int) -> None:
        """Make a step."""
        self._host.write_for(name, effect, 1, now)

    def leased(self, rows: GenerationRows) -> tuple[int, Keeping | None]:
        """How many entries of a generation are under a lease, and the one whose lease ends last, of all journals."""
        self._state.save_leases()
        count, last, deadline = 0, b"", -1
        for name, value in rows.all(rows.leases):
            if value[4] == PROCESSING:
                count += 1
                lease = decode_lease(unprefixed(name), value)
                ends = self._state.steps.moved_lease(lease).deadline
                if ends > deadline:
                    last, deadline = name, ends
        entry = rows.get(last, db=rows.entries) if count else None
        return count, None if entry is None else Keeping(decode_entry(unprefixed(last), entry).key, deadline)


class MemberGenerations:
    """The same for one journal, with its own schemas."""

    rotate_at = NEVER

    def __init__(
        self, member: Pipeline, shared: MergedGenerations, steps: list[GenerationRecord],
        record: Callable[[list[GenerationRecord]], None],
    ) -> None:  # fmt: skip
        """`record` writes the steps to the catalog, durable on return."""
        self._p, self._log = member, member.log
        self._shared, self._record = shared, record
        self._steps = steps
        """From the order of each on its schema counts."""
        self._schema: Schema | None = None
        self.rotate, self.rotate_if_place, self.pause_s = shared.rotate, shared.rotate_if_place, shared.pause_s
        self.spans, self.closed_logs = shared.spans, shared.closed_logs
        self._look_at_schema()

    @property
    def first(self) -> int:
        """The generation of the journal's declaration: earlier cursors are of a former life, or of other journals (former_names N2)."""
        return self._steps[0].order

    @property
    def kept(self) -> list[GenerationRecord]:
        """What the catalog has of the generations."""
        return self._shared.kept

    @property
    def schema(self) -> Schema | None:
        """What is checked on put: the schema of the active generation."""
        self.look_again()
        return self._schema

    @property
    def blank(self) -> dict[str, Any] | None:
        """All fields of the schemas, with None."""
        self.look_again()
        return self._blank

    def look_again(self) -> bool:
        """Look at the schemas if the generations have changed since; whether they had."""
        if self._seen is self._shared.kept:
            return False
        self._look_at_schema()
        return True

    def _look_at_schema(self) -> None:
        self._seen = self._shared.kept
        kept = self._schema_at(self._seen[-1].order)
        schema = None if kept is None else Schema.from_dict(kept)
        if schema != self._schema:  # the same object stays: data that was checked with it need not be checked again
            self._schema = schema
        union = self.union()
        self._blank = None if union is None else dict.fromkeys(field.name for field in union.fields)

    def _schema_at(self, order: int) -> dict[str, object] | None:
        return next((step.schema for step in reversed(self._steps) if step.order <= order), None)

    def use_schema(self) -> None:
        """The settings changed: another schema counts from the next generation on, or from an untouched one."""
        p, log = self._p, self._log
        with p.lock:
            schema = declared(p.settings)
            if self._steps[-1].schema == schema:
                return
            order = p.order if log.next_offset == log.base else p.order + 1
            steps = [step for step in self._steps if step.order < order]
            steps.append(GenerationRecord(order, p.time.now(), None, True, True, schema))
            self._record(steps)
            self._steps = steps
            self._look_at_schema()
            p.look_at_settings()

    def union(self) -> Schema | None:
        """All fields that the data of this journal may have: entries move to other generations, so none is forgotten."""
        active = self.kept[-1].order
        found = [
            Schema.from_dict(step.schema) for step in self._steps if step.schema is not None and step.order <= active
        ]
        return Schema.union(found) if found else None

    def schedule(self) -> None:
        """Rotations are no member's."""

    def due(self) -> None:
        """Rotations are no member's."""

    def _tell(self, kept: list[GenerationRecord]) -> list[Generation]:
        state, known = self._p.state, self._p.consumers.known
        report = Report(self._log.end.offset - 1, known, partial(leased_in, state), self._shared.is_compacting)
        return report.tell(kept, state.generations)

    def newest(self) -> Generation:
        """The active one, with what this journal has in it."""
        return self._tell(self.kept[-1:])[0]

    def list(self) -> list[Generation]:
        """All, with what this journal has in them."""
        return self._tell(self.kept)


class MemberConsumers:
    """The feed consumers of one merged journal."""

    def __init__(self, p: FollowedJournal, consumers: Consumers, name: str) -> None:
        """`name`: of the journal; empty for consumers that follow all journals."""
        self._all, self._p, self._scope = consumers, p, f"{name}:"
        self.directory = consumers.directory
        self.look, self.touched, self.flush = consumers.look, consumers.touched, consumers.flush

    @property
    def lock(self) -> threading.Lock:
        """Guards what is acknowledged."""
        return self._all.lock

    @property
    def is_closed(self) -> bool:
        """Whether nothing is acknowledged any more."""
        return self._all.is_closed

    @property
    def known(self) -> dict[str, FeedConsumer]:
        """By the names that the journal calls them by."""
        scope = self._scope
        return {name[len(scope) :]: each for name, each in self._all.known.items() if name.startswith(scope)}

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

    def remove_all(self) -> None:
        """Forget all of them: the journal is no more."""
        for name, consumer in self.known.items():
            if (feed := consumer.open_feed) is not None:
                feed.close()
            self.remove(name)

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
