"""
Puts and creates of one entry.

A put lets the pure rules decide on what is stored, hands the effect to the pipeline, and waits outside of the lock until its record is as
durable as was asked. Groups are in journal.engine.work.put_many.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

from journal.core import lifecycle
from journal.core.counters import SAMPLE
from journal.core.entry import effects as fx
from journal.core.entry.keys import pack_place
from journal.core.entry.rows import Row, encode_new, encode_usual, key_size
from journal.core.log.cursor import Cursor
from journal.core.requests.produce import CreateRequest, PutRequest
from journal.core.schema.schema import Schema
from journal.core.values import PutResult
from journal.engine.arguments import SchemaChanged, Wanted, dates_of, wanted
from journal.engine.caller import LOCAL, Caller
from journal.engine.files.lmdb import LmdbError
from journal.engine.log.durability import FULL
from journal.engine.log.group_commit import ChangeKind
from journal.engine.work.group import decide_one
from journal.engine.work.path import WorkPath
from journal.engine.work.put_many import TOGETHER_BYTES_MAX, Rule, change_of, counts_of, creating
from journal.errors import Refused
from journal.shield import SHIELD, shield_down, shield_up

_INSERTED = lifecycle.INSERTED
_new = tuple.__new__  # a NamedTuple without the call of its __new__, a Python function


class SinglePuts:
    """The puts of one journal."""

    _puts = 0
    """How many there were; of each SAMPLE-th the time is taken. Threads that count at once cost a sample, nothing more."""

    def __init__(self, pipeline: WorkPath) -> None:
        self._p = pipeline
        self._tally = pipeline.tally

    def usual(self, key: str, data: Any, priority: int, durability: str | None, caller: Caller = LOCAL) -> PutResult:
        """A put of a short text key without options, without a call for each step; `benchmarks/hot_path.py` has the figure."""
        p = self._p
        self._puts += 1
        if not self._puts % SAMPLE:
            return self._timed(key, data, priority, durability, caller)
        limit = p.plain_bytes_max
        if limit and len(packed := caller.pack(data)) <= limit:
            raw = key.encode()
            level = p.level if durability is None else p.level_of(durability, p.level)
            is_up = shield_up()
            try:
                if level == FULL and p.is_syncing():
                    kind = ChangeKind.PUT if len(packed) <= TOGETHER_BYTES_MAX else ChangeKind.ANY
                    return p.change(level, self._usual, key, raw, packed, priority, level, kind=kind)
                with p.lock:
                    result, at = self._usual(key, raw, packed, priority, level)
                if level == FULL:
                    p.settle(at)
                return result
            except SchemaChanged:
                pass  # it has a schema by now, and must be checked
            finally:
                if is_up:
                    shield_down()
        return self.any(PutRequest(key=key, data=data, priority=priority, durability=durability), caller)

    def _timed(self, key: str, data: Any, priority: int, durability: str | None, caller: Caller) -> PutResult:
        """A put whose time is taken, from the call to the answer."""
        began = perf_counter_ns()
        result = self.usual(key, data, priority, durability, caller)
        self._tally.put_times.add((perf_counter_ns() - began) // 1000)  # without the lock: a sample may get lost
        return result

    def any(self, asked: PutRequest | CreateRequest, caller: Caller) -> PutResult:
        """A put or a create, whatever its arguments are."""
        p = self._p
        rule = lifecycle.put if isinstance(asked, PutRequest) else creating(asked.is_repeatable)
        version = asked.version if isinstance(asked, PutRequest) else None
        key, data = asked.key, asked.data
        with SHIELD:
            while True:
                schema = p.schema
                stored_key, stored = (
                    (key, data) if schema is None and key is not None else caller.checked(schema, key, data)
                )
                want = wanted(stored_key, stored, asked.priority, asked, p.settings.entry_bytes_max, caller.pack)
                level = p.level_of(asked.durability, p.level)
                try:
                    return p.change(level, self._any, want, level, rule, schema, version)
                except SchemaChanged:
                    continue  # it is checked once more

    def _usual(self, key: str, raw: bytes, data: bytes, priority: int, level: int) -> tuple[PutResult, int]:
        """`_any` of a text key without options, in two thirds of its time. Under the lock."""
        p = self._p
        now = p.enter_unflushed()
        if not p.plain_bytes_max:
            raise SchemaChanged
        state = p.state
        slot, row = state.lookup(key, raw)
        if row is not None:
            want = _new(Wanted, (key, raw, data, priority, None, 0, 0, None, b""))
            return self._merge(want, now, level, lifecycle.put)
        log = p.log
        at = log.next_offset
        primary = pack_place(priority, now, at) + slot
        value = encode_usual(primary, now, at, raw, data)
        p.append(_new(fx.PutEffect, (primary, value)), 1, now, level)
        try:
            state.insert_usual(slot, _new(Row, (primary, now, 0, now, at, 1, 0, b"", key, data)), value)
        except LmdbError as e:
            raise p.misapplied(e) from e
        p.applied(at, 1, now, level)
        self._tally.put["inserted"] += 1
        return _new(PutResult, (_INSERTED, _new(Cursor, (p.order, at - log.base)), 1, now, priority)), at

    def _any(
        self, want: Wanted, level: int, rule: Rule, schema: Schema | None, version: int | None
    ) -> tuple[PutResult, int]:
        """Under the lock: the result, and the offset that it rests on."""
        p = self._p
        key, raw, data, priority, date, delay, expiration, insertion, owner = want
        now = p.enter_unflushed()
        if p.schema is not schema:
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
        log = p.log
        at = log.next_offset
        primary = pack_place(priority, date, at) + slot
        value = encode_new(primary, insertion, expiration, accepted, at, owner, raw, key_size(key, raw), data)
        row = Row(primary, insertion, expiration, accepted, at, 1, 0, owner, key, data)
        p.write(fx.PutEffect(primary, value), 1, now, level, lambda _: state.insert(row, value))
        counts_of(p, rule)["inserted"] += 1
        return _new(PutResult, (_INSERTED, _new(Cursor, (p.order, at - log.base)), 1, date, priority)), at

    def _merge(
        self, want: Wanted, now: int, level: int, rule: Rule, version: int | None = None
    ) -> tuple[PutResult, int]:
        """Something is stored of the key: the rules decide."""
        p = self._p
        p.flush()
        counts = counts_of(p, rule)
        try:
            result, at = decide_one(p, change_of(want, rule, version, p.settings), now, level)
        except Refused:
            counts["refused"] += 1
            raise
        counts[result.outcome] += 1
        return result, at
