"""
Loads: very many rows as one change.

A load is one record, as a group of puts is (bulk), with its number under its name in it when it is to be made once. What can
be done before the lock is taken is done before (preparing); then everybody waits until the rows are in the log and in LMDB,
and the checkpoint that follows writes LMDB's pages.

Q1  A load is whole or absent, in a crash too; a refusal leaves nothing: no row, no record, no number.
Q2  Keys that are new and different, by far the most, are inserted in the order of work, and that is the order of their
    changes in the log. A load that meets entries, or has a key twice, is decided row by row in the order given.
Q3  The number of a name only grows: a load with one that is not above it changes nothing and says so.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import compress, islice
from operator import eq
from typing import Any, NamedTuple
from zlib import crc32

from journal.core import effects as fx
from journal.core import life
from journal.core.cursor import cursor_of
from journal.core.keys import UserKey
from journal.core.limits import DATE_MAX, LOAD_NAME_BYTES_MAX
from journal.core.views import Loaded
from journal.engine.arguments import SchemaChanged, name_text
from journal.engine.bulk import Find, Rule, after, next_slot
from journal.engine.checkpoints import BYTES_MAX, CHANGES_MIN
from journal.engine.levels import FULL, OS
from journal.engine.lmdbfile import LmdbError
from journal.engine.pipeline import Pipeline
from journal.engine.preparing import (
    AT,
    KEY_SIZE_AT,
    Part,
    Prepared,
    Preparing,
    key_of_item,
    listed_parts,
    raw_of_item,
    refuse_if_too_many,
    rejected,
    row_of_item,
)
from journal.engine.side import Side
from journal.errors import Invalid, KeyExists, Refused

RULES: dict[str, Rule] = {
    "merge": life.put,
    "replace": lambda found, new, _: life.replace(found, new),
    "skip": lambda found, new, _: life.skip(found, new),
    "error": lambda found, new, _: life.create(found, new),
}
"""What becomes of a row whose key is there."""
ON_REJECT = ("fail", "list")
NAMED_MAX = 5
"""So many keys that are there are named by an error."""
_PUT = fx.VERBS[fx.Put][0]
_pack_at = struct.Struct(">QIB").pack
_pack_crc = struct.Struct(">I").pack


class Options(NamedTuple):
    """How a load is made, checked."""

    rule: Rule
    once: tuple[str, int] | None
    is_listing: bool
    level: int


class Loading(Side):
    """The verbs of those who bring rows by the million."""

    def load(
        self,
        parts: Iterable[Part],
        *,
        on_conflict: str = "merge",
        once: tuple[str, int] | None = None,
        on_reject: str = "fail",
        durability: str | None = None,
    ) -> Loaded:
        """
        Put all rows of some parts, load blocks or the paths of part files (journal.loads), as one change: all or none.

        on_conflict: what becomes of a row whose key is there: "merge" (as by a put), "replace", "skip", or "error": then
        KeyExists, and nothing is changed. once: a name and a number; a number that is not above the last one of its name
        changes nothing, and `is_repeated` says so. on_reject: a row that is wrong is an Invalid and nothing is changed
        ("fail"), or it is left out and listed ("list").
        """
        options = options_of(self._p, on_conflict, once, on_reject, durability)
        found = listed_parts(parts)
        while True:
            repeated = repeated_load(self._p, options)
            if repeated is not None:
                return repeated
            try:
                return self._load(found, options)
            except SchemaChanged:
                pass  # they are checked once more

    def _load(self, parts: Iterable[Part], options: Options) -> Loaded:
        p = self._p
        schema = p.generations.schema
        preparing = Preparing(schema, p.settings.entry_bytes_max, self._now(), is_listing=options.is_listing)
        prepared = preparing.read(parts)
        is_large = len(prepared.items) >= CHANGES_MIN or prepared.bytes >= BYTES_MAX
        if is_large and p.changes:
            p.checkpoints.hold()  # so that the map has all its room
        with p.lock:
            now = p.enter()
            if p.generations.schema is not schema:
                raise SchemaChanged
            made = _repeated(p, options)
            if made is None:
                made = _Load(p, self._find, prepared, options, now).make()
        loaded, offset = made
        if options.level == FULL and p.log.synced < offset:
            p.settle(offset)
        if is_large:
            p.checkpoints.hold()
        return loaded

    def _now(self) -> int:
        p = self._p
        if p.trouble is not None:
            raise p.trouble
        return p.time.now()


def options_of(p: Pipeline, on_conflict: str, once: Any, on_reject: str, durability: str | None) -> Options:
    """Check how a load shall be made."""
    rule = RULES.get(on_conflict) if type(on_conflict) is str else None
    if rule is None:
        raise Invalid(f"on_conflict is {on_conflict!r}: it must be one of {', '.join(RULES)}")
    if type(on_reject) is not str or on_reject not in ON_REJECT:
        raise Invalid(f"on_reject is {on_reject!r}: it must be one of {', '.join(ON_REJECT)}")
    if once is not None:
        if not isinstance(once, (tuple, list)) or len(once) != 2:
            raise Invalid(f'once is {once!r}: it must be a name and a number, e.g. ("nightly", 7)')
        name_text(once[0], "the name of a load", LOAD_NAME_BYTES_MAX)
        if type(once[1]) is not int or not 0 <= once[1] <= DATE_MAX:
            raise Invalid(f"the number of a load is {once[1]!r}: it must be an int from 0 to {DATE_MAX}")
        once = once[0], once[1]
    return Options(rule, once, on_reject == "list", p.level_of(durability, p.level))


def repeated_load(p: Pipeline, options: Options) -> Loaded | None:
    """What a load comes to that was made before (Q3); None when it was not."""
    if options.once is None:
        return None
    with p.lock:
        p.enter()
        found = _repeated(p, options)
    if found is None:
        return None
    if options.level == FULL and p.log.synced < found[1]:
        p.settle(found[1])
    return found[0]


def _repeated(p: Pipeline, options: Options) -> tuple[Loaded, int] | None:
    if options.once is None:
        return None
    name, number = options.once
    kept, at = p.state.once.numbers.get(name, (-1, 0))
    return None if number > kept else (Loaded(cursor_of(at), is_repeated=True), at)


class _Load:
    """One load, under the lock."""

    def __init__(self, p: Pipeline, find: Find, prepared: Prepared, options: Options, now: int) -> None:
        self._p = p
        self._find = find
        self._prepared = prepared
        self._options = options
        self._now = now
        self._counts: dict[str, int] = {}
        self._rejected = list(prepared.rejected)
        self._existing: list[UserKey] = []
        self._seen: dict[bytes, life.Found | Invalid] = {}
        """What is stored of keys that the rules must look at, by `_name`, or why there is no place for one."""

    def make(self) -> tuple[Loaded, int]:
        """Make it: what it came to, and the offset that this rests on."""
        met = self._met()
        if not met:
            last = self._write_new(self._prepared.ordered)
        else:
            self._look_up(met)
            if self._changes_any(met):
                last = self._write_group(self._decide_all(met))
            else:
                last = self._write_new([item for item in self._prepared.ordered if item[9:26] not in met])
        return Loaded(cursor_of(last), **self._counts, rejected=sorted(self._rejected)), last  # type: ignore[arg-type]

    # -- rows whose keys are there, or come twice -----------------------------------------------------------------------

    def _met(self) -> set[bytes]:
        """The slots that the rules must look at: of keys that are there, or come twice, or may collide."""
        state = self._p.state
        slots = [item[9:26] for item in self._prepared.ordered]
        if state.collisions:
            return set(slots)
        slots.sort()  # they are, if all rows have one place
        met = set(compress(slots, map(eq, slots, islice(slots, 1, None))))
        if state.size():
            met |= state.taken(slots)
        return met

    def _look_up(self, met: set[bytes]) -> None:
        """Find what is stored of these; an entry may expire meanwhile, so all of this comes before the first offset."""
        taken: set[bytes] = set()
        for item in self._prepared.items:
            if item[9:26] not in met or (name := _name(item)) in self._seen:
                continue
            raw = raw_of_item(item)
            key = key_of_item(item)
            try:
                found = self._find(key, raw, self._now)
                slot = found.slot
                while found.row is None and slot in taken:
                    slot = next_slot(self._p, key, slot)
            except Invalid as e:
                self._seen[name] = e
                continue
            self._seen[name] = found._replace(slot=slot)
            taken.add(slot)

    def _changes_any(self, met: set[bytes]) -> bool:
        """Whether any of these changes something; else they are counted."""
        for number, item in enumerate(self._prepared.items):
            if item[9:26] in met:
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
        at = self._p.log.next_offset
        for number, item in enumerate(self._prepared.items):
            if item[9:26] not in met:
                self._count(life.INSERTED)
                effects.append((_PUT, item[:26], _value(item, at)))
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

    def _decide(self, number: int, item: bytes, at: int) -> life.Decision | None:
        """What becomes of a row; None when it is wrong, or must not be there."""
        found = self._seen[_name(item)]
        row = row_of_item(item, at)
        try:
            if isinstance(found, Invalid):
                raise found
            row = row._replace(primary=row.primary[:9] + found.slot)
            return self._options.rule(found, row, self._p.settings)
        except KeyExists:
            self._existing.append(row.key)
        except (Invalid, Refused) as e:
            prepared = self._prepared
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

    def _write_new(self, items: list[bytes]) -> int:
        """Insert rows whose keys are new and different, in the order of work (Q2); the offset of the last one."""
        if not items:
            return self._write_group([])
        self._counts[life.INSERTED] = len(items)
        flat: list[bytes] = [b""] * (2 * len(items))
        flat[::2] = [item[:26] for item in items]
        flat[1::2] = [_value(item, at) for at, item in enumerate(items, self._p.log.next_offset)]
        once = self._options.once
        return self._write(fx.Puts(flat) if once is None else fx.Load(*once, flat), len(items))

    def _write_group(self, effects: list[Any]) -> int:
        once = self._options.once
        if once is not None:
            return self._write(fx.LoadGroup(*once, effects), max(len(effects), 1))
        return self._write(fx.Group(effects), len(effects)) if effects else self._p.log.next_offset - 1

    def _write(self, effect: fx.Effect, count: int) -> int:
        """Write one record, and count it as what it may touch of the map."""
        p = self._p
        weight = p.checkpoints.weight(count, self._prepared.bytes)
        if p.changes + weight > p.checkpoints.changes_room:
            raise p.checkpoints.refusal()
        level = self._options.level
        first = p.append(effect, count, self._now, max(level, OS))
        try:
            p.state.apply(effect, first)
        except LmdbError as e:
            raise p.misapplied(e) from e
        p.applied(first, count, self._now, level)
        p.changes += weight - count
        return first + count - 1


def _name(item: bytes) -> bytes:
    """What tells keys apart: of which type it is, and its bytes."""
    return item[KEY_SIZE_AT : KEY_SIZE_AT + 2] + raw_of_item(item)


def _value(item: bytes, at: int) -> bytes:
    """The bytes of the entry that an item becomes."""
    whole = item[:AT] + _pack_at(at, 1, 0) + item[AT:]
    return _pack_crc(crc32(whole)) + whole[26:]
