"""
The buried entries: the verbs that list them, retry them or discard them.

U1  They come in the order of burial, which is that of their names in the sub-database (keys.buried_key): a page begins with a seek.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from journal.core import lifecycle
from journal.core.counters import count_results
from journal.core.entry import effects as fx
from journal.core.entry.keys import UserKey, buried_in, key_bytes, murmur
from journal.core.entry.rows import BuriedRow, encode_row
from journal.core.requests.operate import BuriedRequest, DiscardRequest, RetryManyRequest, RetryRequest
from journal.core.values import Buried, BuriedPage, PutResult, buried_of
from journal.engine.caller import Caller
from journal.engine.handlers import handles
from journal.engine.read.path import ReadPath
from journal.engine.read.selection import Filter
from journal.engine.readonly import moment_of
from journal.engine.state.reader import StoredState
from journal.engine.work.group import Change, Decided, decide_each, only, result_of
from journal.engine.work.path import WorkPath
from journal.errors import Invalid, JournalError, KeyExists, NotFound, StoreDamaged
from journal.shield import give_way, whole

ROWS = 256
"""So many are read under the lock at a time."""


class BuriedFilter(NamedTuple):
    """Which of them are asked for."""

    prefix: UserKey | None = None
    reason: str | None = None
    wanted: Filter | None = None

    def has(self, buried: BuriedRow) -> bool:
        """Whether this is one."""
        key, prefix, wanted = buried.row.key, self.prefix, self.wanted
        if prefix is not None and not (type(key) is type(prefix) and key[: len(prefix)] == prefix):
            return False
        if wanted is not None and not (wanted.consumer is None and wanted.has_place(buried.row.primary)):
            return False
        if wanted is not None and wanted.owner is not None and buried.row.owner != wanted.owner:
            return False
        return self.reason is None or self.reason in buried.reason


def walk(p: ReadPath, after: bytes = b"") -> Iterator[tuple[bytes, BuriedRow]]:
    """All of them behind a place, with their places (U1); some are read under the lock at a time."""
    start: bytes | None = after + b"\0" if after else b""
    while start is not None:
        found, start = _read(p, start)
        yield from found


@whole
def _read(p: ReadPath, start: bytes) -> tuple[list[tuple[bytes, BuriedRow]], bytes | None]:
    """The next ones, and where to go on."""
    with p.lock:
        p.enter()
        state = p.state
        names = [bytes(name) for name in islice(state.names_from(b"buried", start), ROWS)]
        found = [(name, _row(state, name)) for name in names]
        settle_at = p.last_unsettled(row.row.at for _, row in found)
    p.settle(settle_at)
    give_way()
    return found, names[-1] + b"\0" if len(names) == ROWS else None


def _row(state: StoredState, name: bytes) -> BuriedRow:
    value = next(value for rows in state.generations if (value := rows.get(name, db=rows.buried)) is not None)
    return state.buried(name, value)


def count(p: ReadPath, wanted: Filter) -> int:
    """How many there are of these dates, buckets and owner."""
    if wanted == Filter(wanted.status):
        with p.lock:
            p.enter()
            return p.state.size(b"buried")
    which = BuriedFilter(wanted=wanted)
    with moment_of(p):
        return sum(which.has(row) for _, row in walk(p))


@handles(BuriedRequest)
def buried(p: ReadPath, asked: BuriedRequest, caller: Caller) -> BuriedPage:
    """Those that are asked for, in the order of burial; with a limit a page, which says where to go on."""
    which = BuriedFilter(asked.prefix, asked.reason)
    found: list[Buried] = []
    last = b""
    with moment_of(p):
        for each, row in walk(p, asked.after or b""):
            if not which.has(row):
                continue
            if len(found) == asked.limit:
                return BuriedPage(found, last.hex())
            found.append(buried_of(row))
            last = each
    return BuriedPage(found)


@handles(RetryRequest)
def retry(p: WorkPath, asked: RetryRequest, caller: Caller) -> PutResult:
    """Let the buried entry with this key (the last one) wait again, due now."""
    return only(retry_many(p, RetryManyRequest(keys=[asked.key], durability=asked.durability), caller))


@handles(RetryManyRequest)
def retry_many(p: WorkPath, asked: RetryManyRequest, caller: Caller) -> list[PutResult | JournalError]:
    """Let many wait again: one record, one sync; a result or an error for each."""
    level = p.level_of(asked.durability, p.level)
    results: list[Any] = [None] * len(asked.keys)
    changes: list[tuple[int, Change]] = []
    for i, key in enumerate(asked.keys):
        try:
            changes.append((i, _retry(p, key)))
        except Invalid as e:
            results[i] = e

    def make() -> tuple[list[PutResult | JournalError], int]:
        at = decide_each(p, changes, p.enter(), level, results)
        count_results(p.tally.retry, results)
        return results, at

    return p.change(level, make)


def _retry(p: WorkPath, key: UserKey) -> Change:
    raw = key_bytes(key)

    def decide(found: lifecycle.Found, now: int, offset: int) -> Decided:
        name, buried = _last_buried(p.state, key, raw)
        if found.row is not None:
            raise KeyExists(f"there is a newer entry with the key {key!r}: discard the buried one, or finish the other")
        row = lifecycle.retry(buried, found.slot, now, offset)
        return result_of("retried", row, offset), fx.RetryEffect(name, row.primary, encode_row(row)), row, offset

    return key, raw, decide


@handles(DiscardRequest)
def discard(p: WorkPath, asked: DiscardRequest, caller: Caller) -> None:
    """Delete the buried entry with this key (the last one)."""
    raw = key_bytes(asked.key)
    level = p.level_of(asked.durability, p.level)

    def make() -> tuple[None, int]:
        now, counts = p.enter(), p.tally.discard
        try:
            effect = fx.Unbury(_last_buried(p.state, asked.key, raw)[0], asked.key)
        except NotFound:
            counts["refused"] += 1
            raise
        at = p.write(effect, 1, now, level, is_essential=True)
        counts["discarded"] += 1
        return None, at

    p.change(level, make)


def _last_buried(state: StoredState, key: UserKey, raw: bytes) -> tuple[bytes, BuriedRow]:
    """The buried entry of a key that was buried last."""
    for name, value in reversed(_buried_of(state, raw)):
        buried = state.buried(name, value)
        if buried.row.key == key:
            return name, buried._replace(row=state.steps.moved(buried.row))
    raise NotFound(f"there is no buried entry with the key {key!r}")


def _buried_of(state: StoredState, raw: bytes) -> list[tuple[bytes, bytes]]:
    """The buried rows whose key has this murmur, in the order of burial."""
    digest, found = murmur(raw), []
    for rows in state.generations:
        for grave, _ in rows.all(rows.graves, digest):
            name = buried_in(grave)
            value = rows.get(name, db=rows.buried)
            if value is None:
                raise StoreDamaged(f"{rows.file.path}: no buried entry {name.hex()}, which an index names")
            found.append((name, value))
    return sorted(found)
