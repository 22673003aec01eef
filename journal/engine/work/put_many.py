"""
Groups of puts: one record, one write, one sync.

New keys without anything stored, the usual case, are found with one multi-get and written with one multi-put for each
index; a group without options takes an even shorter way. Keys that exist, come twice in the group, or collide go through
the same rules as a single put, one after the other, each seeing what the group has done before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from journal.core import lifecycle
from journal.core.arguments import version_number
from journal.core.counters import count_results
from journal.core.entry import effects as fx
from journal.core.entry.keys import murmur, pack_place
from journal.core.entry.rows import Row, encode_new, encode_plain, encode_usual, key_size
from journal.core.limits import GROUP_BYTES_MAX, KEY_BYTES_MAX, PRIORITY_MAX
from journal.core.log.cursor import Cursor
from journal.core.schema.schema import Schema
from journal.core.settings import Settings
from journal.core.values import Put, PutResult
from journal.engine.arguments import Pack, SchemaChanged, Wanted, dates_of, row_of, wanted
from journal.engine.caller import Caller
from journal.engine.files.lmdb import LmdbError
from journal.engine.log.durability import FULL
from journal.engine.work.group import Change, Decided, decide_each, result_of
from journal.engine.work.path import WorkPath
from journal.errors import Invalid, JournalError

_new = tuple.__new__
PLAIN_BYTES_MAX = 256
TOGETHER_BYTES_MAX = 4096
"""Data of a put that goes into one record with those of other callers."""
Rule = Callable[[lifecycle.Found, Row, Settings], lifecycle.Decision]
"""What becomes of a put: `lifecycle.put`, or that of a create."""


def creating(is_repeatable: bool) -> Rule:
    """The rule of a create."""
    return lambda found, new, _: lifecycle.create(found, new, is_repeatable=is_repeatable)


def put_many(
    p: WorkPath, puts: list[Put], durability: str | None, rule: Rule, caller: Caller
) -> list[PutResult | JournalError]:
    """Put a group; a result or an error for each."""
    level = p.level_of(durability, p.level)
    while True:
        try:
            return _put_many(p, puts, level, rule, caller)
        except SchemaChanged:
            pass  # they are checked once more


def _put_many(p: WorkPath, puts: list[Put], level: int, rule: Rule, caller: Caller) -> list[PutResult | JournalError]:
    schema = p.schema
    plain = _plain(puts, p.settings.entry_bytes_max, caller.pack) if schema is None else None
    results: list[Any] = [None] * len(puts)
    wants = wants_of(p, puts, results, schema, caller) if plain is None else []
    versions = {} if plain is not None else versions_of(puts)

    def make() -> tuple[list[PutResult | JournalError], int]:
        now = p.enter()
        if p.schema is not schema:
            raise SchemaChanged
        counts = counts_of(p, rule)
        if plain is not None:
            slots = _all_new(p, [raw for _, raw, _ in plain])
            if slots is not None:
                made = _insert_plain(p, plain, slots, now, level)
                counts["inserted"] += len(plain)
                return made
            wants[:] = wants_of(p, puts, results, None, caller)
        slots = None if versions else _all_new(p, [want.raw for _, want in wants])
        if slots is not None:
            first = p.next_offset
            at = _insert(p, wants, slots, now, level, results)
            inserted = p.next_offset - first
            counts["inserted"] += inserted
            counts["refused"] += len(wants) - inserted
        else:
            changes = [(i, change_of(want, rule, versions.get(i), p.settings)) for i, want in wants]
            at = decide_each(p, changes, now, level, results)
            count_results(counts, (results[i] for i, _ in wants))
        return results, at

    return p.change(level, make)


def change_of(want: Wanted, rule: Rule, version: int | None, settings: Settings) -> Change:
    """A put as a change that the rules decide."""

    def decide(found: lifecycle.Found, now: int, offset: int) -> Decided:
        lifecycle.check_put(found, want.key, version)
        outcome, row, effect = rule(found, row_of(want, found, now, offset), settings)
        at = row.at if effect is None else offset
        return result_of(outcome, row, at), effect, row, at

    return want.key, want.raw, decide


def counts_of(p: WorkPath, rule: Rule) -> dict[str, int]:
    """Where puts by this rule are counted."""
    tally = p.tally
    return tally.put if rule is lifecycle.put else tally.create


def put_together(p: WorkPath, puts: list[tuple[str, bytes, bytes, int, int]]) -> list[PutResult | None]:
    """
    Make puts of many callers (key, its bytes, packed data, priority, level `full`; no options) as one change.

    Under the lock. None for a put that the rules must decide.
    """
    results: list[PutResult | None] = [None] * len(puts)
    now = p.enter_unflushed()
    if not p.plain_bytes_max:
        return results
    state = p.state
    slots = [murmur(put[1]) + b"\0" for put in puts]
    taken = state.taken(slots)
    if state.collisions:
        return results
    log = p.log
    first = at = log.next_offset
    order, base = p.order, log.base
    flat: list[bytes] = []
    rows: list[tuple[bytes, Row, bytes]] = []
    for i, (key, raw, data, priority, _) in enumerate(puts):
        slot = slots[i]
        if slot in taken:
            continue
        taken.add(slot)  # the same key, or one that collides, comes after the first
        primary = pack_place(priority, now, at) + slot
        value = encode_usual(primary, now, at, raw, data)
        flat += (primary, value)
        rows.append((slot, _new(Row, (primary, now, 0, now, at, 1, 0, b"", key, data)), value))
        results[i] = _new(PutResult, (lifecycle.INSERTED, _new(Cursor, (order, at - base)), 1, now, priority))
        at += 1
    if not rows:
        return results
    p.append(fx.PutsEffect(flat), at - first, now, FULL)
    try:
        for slot, row, value in rows:
            state.insert_usual(slot, row, value)
    except LmdbError as e:
        raise p.misapplied(e) from e
    p.applied(first, at - first, now, FULL)
    p.tally.put["inserted"] += at - first
    return results


def _plain(puts: list[Put], limit: int, pack: Pack) -> list[tuple[int, bytes, bytes]] | None:
    """Priority, key and packed data of a group without options, of text keys and short bytes; None for any other."""
    if limit <= 2 * KEY_BYTES_MAX or len(puts) * (KEY_BYTES_MAX + PLAIN_BYTES_MAX) > GROUP_BYTES_MAX:
        return None
    plain = []
    for put in puts:
        if type(put) is not Put or put.options is not None:
            return None
        key, data, priority = put.key, put.data, put.priority
        if (
            type(key) is not str
            or type(data) is not bytes
            or type(priority) is not int
            or not key.isascii()
            or not 0 < len(key) <= KEY_BYTES_MAX
            or len(data) >= PLAIN_BYTES_MAX
            or not 0 <= priority <= PRIORITY_MAX
        ):
            return None
        try:
            plain.append((priority, key.encode(), pack(data)))
        except Invalid:
            return None  # data that comes packed, and is not: the others are no worse for it
    return plain


def wants_of(
    p: WorkPath, puts: list[Put], results: list[Any], schema: Schema | None, caller: Caller
) -> list[tuple[int, Wanted]]:
    """The puts whose arguments are good; the errors of the others are results."""
    limit, pack = p.settings.entry_bytes_max, caller.pack
    wants: list[tuple[int, Wanted]] = []
    size = 0
    for i, put in enumerate(puts):
        if type(put) is not Put:
            raise Invalid(f"a group has journal.Put objects, not {put!r}")
        try:
            key, data = put.key, put.data
            if schema is not None or key is None:
                key, data = caller.checked(schema, key, data)
            if put.options is not None:
                version_number(put.options.version)
            want = wanted(key, data, put.priority, put.options, limit, pack)
        except Invalid as e:
            results[i] = e
            continue
        wants.append((i, want))
        size += len(want.data) + len(want.raw) + len(want.owner) + 200
    if size > GROUP_BYTES_MAX:
        raise Invalid(f"the group has about {size} bytes, more than {GROUP_BYTES_MAX}: split it")
    return wants


def versions_of(puts: list[Any]) -> dict[int, int]:
    """Which version of its entry a put of a group is for, by its place, where it says so."""
    return {
        i: put.options.version
        for i, put in enumerate(puts)
        if put is not None and put.options is not None and put.options.version is not None
    }


def _insert_plain(
    p: WorkPath, plain: list[tuple[int, bytes, bytes]], slots: list[bytes], now: int, level: int
) -> tuple[list[PutResult | JournalError], int]:
    """All keys are new, and nothing is unusual: in three quarters of the time of `_insert`."""
    if not plain:
        return [], -1
    log, state = p.log, p.state
    offset = log.next_offset
    pairs = encode_plain(plain, slots, now, offset)
    order, base = p.order, log.base
    results: list[PutResult | JournalError] = [
        _new(PutResult, (lifecycle.INSERTED, _new(Cursor, (order, at - base)), 1, now, item[0]))
        for at, item in enumerate(plain, offset)
    ]
    flat = [part for pair in pairs for part in pair]
    pairs.sort()
    p.write(fx.PutsEffect(flat), len(pairs), now, level, lambda _: state.insert_many(pairs, []))
    return results, offset + len(pairs) - 1


def _all_new(p: WorkPath, keys: list[bytes]) -> list[bytes] | None:
    """The slots of the group's keys when all of them are new and different."""
    state = p.state
    if state.collisions:
        return None
    slots = [murmur(key) + b"\0" for key in keys]
    if len(set(slots)) != len(slots) or state.taken(slots):
        return None
    return slots


def _insert(
    p: WorkPath, wants: list[tuple[int, Wanted]], slots: list[bytes], now: int, level: int, results: list[Any]
) -> int:
    """All keys are new: no rule but insertion applies."""
    log, state = p.log, p.state
    offset = log.next_offset
    order, base = p.order, log.base
    flat: list[bytes] = []
    pairs: list[tuple[bytes, bytes]] = []
    extras: list[tuple[bytes, int, bytes]] = []
    for (i, want), slot in zip(wants, slots, strict=True):
        key, raw, data, priority, date, delay, expiration, insertion, owner = want
        accepted = now
        if date is None and insertion is None and not delay:
            insertion = date = now
        else:
            try:
                insertion, accepted, date = dates_of(want, now)
            except Invalid as e:
                results[i] = e
                continue
        primary = pack_place(priority, date, offset) + slot
        value = encode_new(primary, insertion, expiration, accepted, offset, owner, raw, key_size(key, raw), data)
        flat += (primary, value)
        pairs.append((primary, value))
        if expiration or owner:
            extras.append((primary, expiration, owner))
        results[i] = _new(PutResult, (lifecycle.INSERTED, _new(Cursor, (order, offset - base)), 1, date, priority))
        offset += 1
    if not pairs:
        return -1
    pairs.sort()
    p.write(fx.PutsEffect(flat), len(pairs), now, level, lambda _: state.insert_many(pairs, extras))
    return offset - 1
