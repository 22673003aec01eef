"""
One load, made under the lock: rows that are ready become one record, and its effect is applied.

Q1  A load is whole or absent, in a crash too; a refusal leaves nothing: no row, no record, no number.
Q2  Keys that are new and different, by far the most, are inserted in the order of work, and that is the order of their
    changes in the log; rows of one priority and date in the order given. A load that meets entries, or has a key twice, is
    decided row by row in the order given.
Q3  The number of a name only grows: a load with one that is not above it changes nothing and says so.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import compress, islice
from operator import eq
from typing import Any, NamedTuple
from zlib import crc32

from journal.core import lifecycle
from journal.core.entry import effects as fx
from journal.core.entry.keys import PRIMARY_BYTES, SLOT_AT, UserKey
from journal.core.log.cursor import cursor_of
from journal.core.values import Loaded
from journal.engine.files.lmdb import LmdbError
from journal.engine.loads.path import LoadPath
from journal.engine.loads.prepare import (
    AT,
    BOUND,
    KEY_SIZE_AT,
    SLOT,
    Prepared,
    key_of_item,
    raw_of_item,
    refuse_if_too_many,
    rejected,
    row_of_item,
)
from journal.engine.log.durability import OS
from journal.engine.state.apply import BULK
from journal.engine.work.group import after
from journal.engine.work.lookup import find, with_slot
from journal.engine.work.put_many import Rule
from journal.errors import Invalid, KeyExists, Refused

RULES: dict[str, Rule] = {
    "merge": lifecycle.put,
    "replace": lambda found, new, _: lifecycle.replace(found, new),
    "skip": lambda found, new, _: lifecycle.skip(found, new),
    "error": lambda found, new, _: lifecycle.create(found, new),
}
"""What becomes of a row whose key is there."""
NAMED_MAX = 5
"""So many keys that are there are named by an error."""
_PUT = fx.VERBS[fx.PutEffect][0]
_MIDDLE, _REST = slice(BOUND.stop, AT), slice(AT, None)
_pack_turn = struct.Struct(">Q").pack
_pack_at = struct.Struct(">QIB").pack
_pack_crc = struct.Struct(">I").pack


class LoadOptions(NamedTuple):
    """How a load is made, checked."""

    rule: Rule
    once: tuple[str, int] | None
    is_listing: bool
    level: int


def repeated(p: LoadPath, options: LoadOptions) -> tuple[Loaded, int] | None:
    """What a load comes to that was made before (Q3), and the offset that rests on; None when it was not."""
    if options.once is None:
        return None
    name, number = options.once
    kept, at = p.state.once.numbers.get(name, (-1, 0))
    return None if number > kept else (Loaded(cursor_of(at), is_repeated=True), at)


class OneLoad:
    """One load, under the lock."""

    def __init__(self, p: LoadPath, prepared: Prepared, options: LoadOptions, now: int) -> None:
        self._p = p
        self._prepared = prepared
        self._options = options
        self._now = now
        self._counts: dict[str, int] = {}
        self._rejected = list(prepared.rejected)
        self._existing: list[UserKey] = []
        self._seen: dict[bytes, lifecycle.Found | Invalid] = {}
        """What is stored of keys that the rules must look at, by `_name`, or why there is no place for one."""

    def make(self) -> tuple[Loaded, int]:
        """Make it: what it came to, and the offset that this rests on."""
        met = self._met()
        if not met:
            last = self._write_new(self._prepared.ordered, are_all=True)
        else:
            self._look_up(met)
            if self._changes_any(met):
                last = self._write_group(self._decide_all(met))
            else:
                last = self._write_new([item for item in self._prepared.ordered if item[SLOT] not in met])
        counts: dict[str, Any] = {**self._counts, "rejected": sorted(self._rejected)}
        return Loaded(cursor_of(last), **counts), last

    # -- rows whose keys are there, or come twice -----------------------------------------------------------------------

    def _met(self) -> set[bytes]:
        """The slots that the rules must look at: of keys that are there, or come twice, or may collide."""
        state = self._p.state
        slots = self._prepared.slots
        if state.collisions:
            return set(slots)
        met = set(compress(slots, map(eq, slots, islice(slots, 1, None))))
        if state.size():
            met |= state.taken(slots)
        return met

    def _look_up(self, met: set[bytes]) -> None:
        """Find what is stored of these; an entry may expire meanwhile, so all of this comes before the first offset."""
        state = self._p.state
        taken: set[bytes] = set()
        for item in self._prepared.items:
            if item[SLOT] not in met or (name := _name(item)) in self._seen:
                continue
            raw = raw_of_item(item)
            key = key_of_item(item)
            try:
                found = with_slot(state, key, find(self._p, key, raw, self._now), taken)
            except Invalid as e:
                self._seen[name] = e
                continue
            self._seen[name] = found
            taken.add(found.slot)

    def _changes_any(self, met: set[bytes]) -> bool:
        """Whether any of these changes something; else they are counted."""
        for number, item in enumerate(self._prepared.items):
            if item[SLOT] in met:
                decision = self._decide(number, item, 0)
                if decision is not None and decision.effect is not None:
                    self._counts.clear()
                    self._existing.clear()
                    self._rejected = list(self._prepared.rejected)
                    return True
                if decision is not None:
                    self._count(decision.outcome)
        self._refuse()
        return False

    def _decide_all(self, met: set[bytes]) -> list[Any]:
        """The effects of all rows, one after the other, each seeing what those before it have done."""
        effects: list[Any] = []
        at = self._p.next_offset
        for number, item in enumerate(self._prepared.items):
            if item[SLOT] not in met:
                self._count(lifecycle.INSERTED)
                effects.append((_PUT, *_written(item, at)))
                at += 1
                continue
            decision = self._decide(number, item, at)
            if decision is None:
                continue
            self._count(decision.outcome)
            if decision.effect is not None:
                effects.append(fx.to_list(decision.effect))
                found = self._seen[_name(item)]
                assert not isinstance(found, Invalid)
                self._seen[_name(item)] = after(found, decision.row)
                at += 1
        self._refuse()
        return effects

    def _decide(self, number: int, item: bytes, at: int) -> lifecycle.Decision | None:
        """What becomes of a row; None when it is wrong, or must not be there."""
        prepared = self._prepared
        found = self._seen[_name(item)]
        row = row_of_item(item, at)
        try:
            if isinstance(found, Invalid):
                raise found
            row = row._replace(primary=row.primary[:SLOT_AT] + found.slot)
            last = found.successor or found.row
            is_dated = row.accepted != prepared.began or number in prepared.began_by_caller
            if not is_dated and last is not None and last.accepted > self._now:
                row = row._replace(accepted=last.accepted)  # as arguments.row_of
            return self._options.rule(found, row, self._p.settings)
        except KeyExists:
            self._existing.append(row.key)
        except (Invalid, Refused) as e:
            self._rejected.append(rejected(prepared.parts[number], prepared.rows[number], e))
            refuse_if_too_many(self._rejected, is_listing=self._options.is_listing)
        return None

    def _count(self, outcome: str) -> None:
        self._counts[outcome] = self._counts.get(outcome, 0) + 1

    def _refuse(self) -> None:
        """Raise why nothing is changed, if so (Q1)."""
        if self._existing:
            some = ", ".join(repr(key) for key in self._existing[:NAMED_MAX])
            more = ", …" if len(self._existing) > NAMED_MAX else ""
            raise KeyExists(
                f"{len(self._existing)} keys of the load are there already, or come twice in it: {some}{more}. Nothing was "
                "changed; use another on_conflict, or leave them out"
            )

    # -- writing --------------------------------------------------------------------------------------------------------

    def _write_new(self, items: list[bytes], *, are_all: bool = False) -> int:
        """Insert rows whose keys are new and different, all of the load or some, in the order of work (Q2); the last offset."""
        if not items:
            return self._write_group([])
        self._counts[lifecycle.INSERTED] = len(items)
        primaries: list[bytes] = []
        values: list[bytes] = []
        add_primary, add_value, join = primaries.append, values.append, b"".join
        for at, item in enumerate(items, self._p.next_offset):  # `_written`, without its call
            whole = join((item[BOUND], _pack_turn(at), item[_MIDDLE], _pack_at(at, 1, 0), item[_REST]))
            add_primary(whole[:PRIMARY_BYTES])
            add_value(_pack_crc(crc32(whole)) + whole[PRIMARY_BYTES:])
        flat: list[bytes] = [b""] * (2 * len(items))
        flat[::2], flat[1::2] = primaries, values
        once, state = self._options.once, self._p.state
        effect = fx.PutsEffect(flat) if once is None else fx.LoadEffect(*once, flat)
        if len(items) < BULK or not are_all:
            return self._write(effect, len(items), state.apply)

        def insert(effect: fx.Effect, at: int) -> None:
            state.insert_entries(primaries, values, has_more=self._prepared.has_more)
            state.insert_keys(self._prepared.slots, [primaries[n] for n in self._prepared.by_slot])
            if once is not None:
                state.once.set(*once, at + len(items) - 1)

        return self._write(effect, len(items), insert)

    def _write_group(self, effects: list[Any]) -> int:
        once, p = self._options.once, self._p
        apply = p.state.apply
        if once is not None:
            return self._write(fx.LoadGroup(*once, effects), max(len(effects), 1), apply)
        return self._write(fx.Group(effects), len(effects), apply) if effects else p.next_offset - 1

    def _write(self, effect: fx.Effect, count: int, apply: Callable[[fx.Effect, int], None]) -> int:
        size, level = self._prepared.bytes, self._options.level
        return write_load(self._p, effect, count, size, self._now, level, lambda at: apply(effect, at))


def write_load(
    p: LoadPath,
    effect: fx.Effect | fx.Packed,
    count: int,
    size: int,
    now: int,
    level: int,
    apply: Callable[[int], None],
) -> int:
    """Write one record of so many bytes, and count it as what it may touch of the map; the offset of its last change."""
    weight = p.checkpoints.weight(count, size)
    p.check_room(weight)
    try:
        first = p.append(effect, count, now, max(level, OS))
        apply(first)
    except LmdbError as e:
        raise p.misapplied(e) from e
    p.applied(first, count, now, level)
    p.add_changes(weight - count)
    return first + count - 1


def _name(item: bytes) -> bytes:
    """What distinguishes keys: the type and the bytes."""
    return item[KEY_SIZE_AT : KEY_SIZE_AT + 2] + raw_of_item(item)


def _written(item: bytes, at: int) -> tuple[bytes, bytes]:
    """The primary key and the bytes of the entry that an item becomes."""
    whole = b"".join((item[BOUND], _pack_turn(at), item[_MIDDLE], _pack_at(at, 1, 0), item[_REST]))
    return whole[:PRIMARY_BYTES], _pack_crc(crc32(whole)) + whole[PRIMARY_BYTES:]
