"""
The producing side of a journal: put, create, move, delete, and groups of each.

Each verb checks its arguments, takes the lock, lets the pure rules decide on what is stored, hands the effect to the
pipeline, and waits outside of the lock until its record is as durable as was asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from time import perf_counter_ns
from typing import Any

from journal.core import lifecycle
from journal.core.counters import SAMPLE
from journal.core.entry import effects as fx
from journal.core.entry import priority as priorities
from journal.core.entry.keys import UserKey, pack_place
from journal.core.entry.rows import Row, encode_new, encode_usual, key_size, place
from journal.core.limits import KEY_BYTES_MAX, PRIORITY_MAX
from journal.core.log.cursor import Cursor, cursor_of
from journal.core.schema.schema import Schema
from journal.core.times import DateLike, DurationLike
from journal.core.values import Delete, Move, Put, PutResult
from journal.engine.arguments import (
    SchemaChanged,
    Wanted,
    dates_of,
    listed,
    row_of,
    version_number,
    wanted,
)
from journal.engine.files.lmdb import LmdbError
from journal.engine.log.durability import FULL
from journal.engine.log.group_commit import Kind
from journal.engine.pipeline import Pipeline
from journal.engine.work.lookup import Side
from journal.engine.work.move_delete import change_many, change_one, deleting, moving
from journal.engine.work.put_many import TOGETHER_BYTES_MAX, Rule, counts_of, creating, put_many, put_together
from journal.errors import JournalError, Refused
from journal.shield import SHIELD, exposed, shield_down, shield_up, shielded

Options = tuple[DateLike | None, DurationLike | None, DateLike | None, DateLike | None, str | None]
"""process_date, delay, expiration, insertion_date, owner"""
_INSERTED = lifecycle.INSERTED
_new = tuple.__new__  # a NamedTuple without the call of its __new__, a Python function


@shielded
class Producing(Side):
    """The verbs of producers."""

    _puts = 0
    """How many there were; of each SAMPLE-th the time is taken. Threads that count at once cost a sample, nothing more."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(pipeline)
        pipeline.put_together = partial(put_together, pipeline)

    @exposed
    def put(
        self,
        key: UserKey | None,
        data: Any = None,
        *,
        priority: int = priorities.DEFAULT,
        process_date: DateLike | None = None,
        delay: DurationLike | None = None,
        expiration: DateLike | None = None,
        insertion_date: DateLike | None = None,
        owner: str | None = None,
        version: int | None = None,
        durability: str | None = None,
    ) -> PutResult:
        """
        Add an entry, or merge it into the one with this key; the result says which.

        With a schema the data is checked, and the key may be None when the schema says what forms it. With `version`, the one
        that the caller has read: VersionMismatch when it is another one by now; 0: when there is an entry.
        """
        p = self._p
        self._puts += 1
        if not self._puts % SAMPLE:
            return self._timed_put(
                key, data, priority=priority, process_date=process_date, delay=delay, expiration=expiration,
                insertion_date=insertion_date, owner=owner, version=version, durability=durability,
            )  # fmt: skip
        limit = p.plain_bytes_max
        pack = self._pack
        if (
            limit
            and type(key) is str
            and process_date is None
            and delay is None
            and expiration is None
            and insertion_date is None
            and owner is None
            and version is None
            and key.isascii()
            and 0 < len(key) <= KEY_BYTES_MAX
            and type(priority) is int
            and 0 <= priority <= PRIORITY_MAX
            and len(packed := pack(data)) <= limit
        ):
            # The usual put, without a call for each step.
            raw = key.encode()
            level = p.level if durability is None else p.level_of(durability, p.level)
            is_up = shield_up()
            try:
                if level == FULL and p.commit.io.locked():
                    kind = Kind.PUT if len(packed) <= TOGETHER_BYTES_MAX else Kind.ANY
                    return p.change(level, self._put_usual, key, raw, packed, priority, level, kind=kind)
                with p.lock:
                    result, at = self._put_usual(key, raw, packed, priority, level)
                if level == FULL and p.log.synced < at:
                    p.settle(at)
                return result
            except SchemaChanged:
                pass  # it has a schema by now, and must be checked
            finally:
                if is_up:
                    shield_down()
        options = process_date, delay, expiration, insertion_date, owner
        with SHIELD:
            return self._put_any(key, data, priority, options, durability, lifecycle.put, version)

    def _timed_put(self, key: UserKey | None, data: Any, **options: Any) -> PutResult:
        """A put whose time is taken, from the call to the answer."""
        began = perf_counter_ns()
        result = self.put(key, data, **options)
        self._p.tally.put_times.add((perf_counter_ns() - began) // 1000)  # without the lock: a sample may get lost
        return result

    def create(
        self,
        key: UserKey | None,
        data: Any = None,
        *,
        priority: int = priorities.DEFAULT,
        process_date: DateLike | None = None,
        delay: DurationLike | None = None,
        expiration: DateLike | None = None,
        insertion_date: DateLike | None = None,
        owner: str | None = None,
        is_repeatable: bool = False,
        durability: str | None = None,
    ) -> PutResult:
        """
        Add an entry; KeyExists when there is one with this key.

        With `is_repeatable` an entry that has the same data and the same owner is the outcome "exists" instead: a caller that
        got no answer retries. Nothing is changed then, and the result has the version, the dates and the cursor of what is there.
        """
        options = process_date, delay, expiration, insertion_date, owner
        return self._put_any(key, data, priority, options, durability, creating(is_repeatable))

    def _put_any(
        self,
        key: UserKey | None,
        data: Any,
        priority: int,
        options: Options,
        durability: str | None,
        rule: Rule,
        version: int | None = None,
    ) -> PutResult:
        """A put or a create, whatever its arguments are."""
        p = self._p
        schema = p.generations.schema
        stored_key, stored = (key, data) if schema is None and key is not None else self._checked(schema, key, data)
        want = wanted(stored_key, stored, priority, *options, p.settings.entry_bytes_max, self._pack)
        version_number(version)
        level = p.level_of(durability, p.level)
        try:
            return p.change(level, self._put, want, level, rule, schema, version)
        except SchemaChanged:
            return self._put_any(key, data, priority, options, durability, rule, version)

    def _put_usual(self, key: str, raw: bytes, data: bytes, priority: int, level: int) -> tuple[PutResult, int]:
        """`_put` of a text key without options."""
        p = self._p
        now = p.enter_unflushed()
        if not p.plain_bytes_max:
            raise SchemaChanged
        state = p.state
        slot, row = state.lookup(key, raw)
        if row is not None:
            return self._merge(
                _new(Wanted, (key, raw, data, priority, None, 0, 0, None, b"")), now, level, lifecycle.put
            )
        log = p.log
        at = log.next_offset
        primary = pack_place(priority, now, at) + slot
        value = encode_usual(primary, now, at, raw, data)
        p.append(_new(fx.Put, (primary, value)), 1, now, level)
        try:
            state.insert_usual(slot, _new(Row, (primary, now, 0, now, at, 1, 0, b"", key, data)), value)
        except LmdbError as e:
            raise p.misapplied(e) from e
        p.applied(at, 1, now, level)
        p.tally.put["inserted"] += 1
        return _new(PutResult, (_INSERTED, _new(Cursor, (p.order, at - log.base)), 1, now, priority)), at

    def _put(
        self, want: Wanted, level: int, rule: Rule, schema: Schema | None, version: int | None
    ) -> tuple[PutResult, int]:
        """Under the lock: the result, and the offset that it rests on."""
        p = self._p
        key, raw, data, priority, date, delay, expiration, insertion, owner = want
        now = p.enter_unflushed()
        if p.generations.schema is not schema:
            raise SchemaChanged
        state = p.state
        slot, row = state.lookup(key, raw)
        if row is not None:
            return self._merge(want, now, level, rule, version)
        if version:
            lifecycle.check_put(lifecycle.Found(slot, None), key, version)
        # Nothing is stored of the key: no rule but insertion applies.
        if insertion is None and date is None:
            insertion = accepted = now
            date = now + delay
        else:
            insertion, accepted, date = dates_of(want, now)
        at = p.log.next_offset
        primary = pack_place(priority, date, at) + slot
        value = encode_new(primary, insertion, expiration, accepted, at, owner, raw, key_size(key, raw), data)
        row = Row(primary, insertion, expiration, accepted, at, 1, 0, owner, key, data)
        p.write(fx.Put(primary, value), 1, now, level, lambda _: state.insert(row, value))
        counts_of(p, rule)["inserted"] += 1
        return _new(PutResult, (_INSERTED, _new(Cursor, (p.order, at - p.log.base)), 1, date, priority)), at

    def _merge(
        self, want: Wanted, now: int, level: int, rule: Rule, version: int | None = None
    ) -> tuple[PutResult, int]:
        """Something is stored of the key: the rules decide."""
        p = self._p
        p.flush()
        found = self._find(want.key, want.raw, now)
        new = row_of(want, found, now, p.log.next_offset)
        counts = counts_of(p, rule)
        try:
            lifecycle.check_put(found, want.key, version)
            decision = rule(found, new, p.settings)
        except Refused:
            counts["refused"] += 1
            raise
        row = decision.row
        at = row.at
        if decision.effect is not None:
            at = p.write(decision.effect, 1, now, level, partial(p.state.apply, decision.effect))
        counts[decision.outcome] += 1
        priority, date = place(row.primary)
        return PutResult(decision.outcome, cursor_of(at), row.version, date, priority), at

    @exposed
    def put_many(self, puts: Iterable[Put], *, durability: str | None = None) -> list[PutResult | JournalError]:
        """
        Put a group: one record, one sync; all that is not refused stands or falls together.

        The list has a result or an error for each put, in order. A key that comes twice is merged as it would be.
        """
        items = listed(puts, "put_many")
        with SHIELD:
            return put_many(self, items, durability, lifecycle.put, "put_many")

    @exposed
    def create_many(
        self, puts: Iterable[Put], *, is_repeatable: bool = False, durability: str | None = None
    ) -> list[PutResult | JournalError]:
        """Create a group, as `put_many` puts one: KeyExists for a key that is there; `is_repeatable` as for `create`."""
        items = listed(puts, "create_many")
        with SHIELD:
            return put_many(self, items, durability, creating(is_repeatable), "create_many")

    def delete(
        self, key: UserKey, *, owner: str | None = None, version: int | None = None, durability: str | None = None
    ) -> bool:
        """Remove an entry that is under no active lease; False when there is none."""
        want = deleting(Delete(key, owner=owner, version=version))
        is_gone: bool = change_one(self._p, self._find, want, durability, is_essential=True)
        return is_gone

    def move(
        self,
        key: UserKey,
        *,
        process_date: DateLike | None = None,
        delay: DurationLike | None = None,
        priority: int | None = None,
        owner: str | None = None,
        version: int | None = None,
        durability: str | None = None,
    ) -> PutResult:
        """Give an entry that is under no active lease another date or priority."""
        want = moving(
            Move(key, process_date=process_date, delay=delay, priority=priority, owner=owner, version=version)
        )
        result: PutResult = change_one(self._p, self._find, want, durability, is_essential=False)
        return result

    @exposed
    def move_many(self, moves: Iterable[Move], *, durability: str | None = None) -> list[PutResult | JournalError]:
        """
        Move a group: one record, one sync; all that is not refused stands or falls together.

        The list has a result or an error for each, in order: NotFound, NotOwner, VersionMismatch, Leased, Invalid.
        """
        items = listed(moves, "move_many")
        with SHIELD:
            return change_many(self._p, self._find, items, moving, durability, "move_many", is_essential=False)

    @exposed
    def delete_many(
        self, deletes: Iterable[Delete | UserKey], *, durability: str | None = None
    ) -> list[bool | JournalError]:
        """
        Delete a group, given as keys or as journal.Delete: one record, one sync.

        The list says of each whether there was an entry, or why it was not deleted: NotOwner, VersionMismatch, Leased.
        """
        items = listed(deletes, "delete_many")
        with SHIELD:
            return change_many(self._p, self._find, items, deleting, durability, "delete_many", is_essential=True)
