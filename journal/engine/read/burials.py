"""
The buried entries: the verbs that list them, retry them or discard them.

U1  They come in the order of burial, which is that of their names in the sub-database (keys.buried_key): a page begins with a seek.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from journal.core import lifecycle
from journal.core.counters import count_results
from journal.core.entry import effects as fx
from journal.core.entry.keys import SLOT_AT, UserKey, buried_in, key_bytes, murmur
from journal.core.entry.rows import BuriedRow, Row, encode_row, place
from journal.core.limits import GROUP_BYTES_MAX
from journal.core.log.cursor import cursor_of
from journal.core.requests.operate import BuriedRequest, DiscardRequest, RetryManyRequest, RetryRequest
from journal.core.values import Buried, BuriedPage, PutResult, buried_of
from journal.engine.caller import Caller
from journal.engine.pipeline import Pipeline
from journal.engine.read.selection import Filter
from journal.engine.readonly import moment_of
from journal.engine.state.reader import StoredState
from journal.engine.work.put_many import look_up
from journal.errors import Invalid, JournalError, KeyExists, NotFound, Refused, StoreDamaged
from journal.shield import give_way, whole

ROWS = 256
"""So many are read under the lock at a time."""


class Which(NamedTuple):
    """Which of them are asked for."""

    prefix: UserKey | None = None
    reason: str | None = None
    wanted: Filter | None = None

    def has(self, buried: BuriedRow) -> bool:
        """Whether this is one."""
        key, wanted = buried.row.key, self.wanted
        if self.prefix is not None and not (type(key) is type(self.prefix) and key.startswith(self.prefix)):  # type: ignore[arg-type]
            return False
        if wanted is not None and not (wanted.consumer is None and wanted.has_place(buried.row.primary)):
            return False
        if wanted is not None and wanted.owner is not None and buried.row.owner != wanted.owner:
            return False
        return self.reason is None or self.reason in buried.reason


def walk(p: Pipeline, after: bytes = b"") -> Iterator[tuple[bytes, BuriedRow]]:
    """All of them behind a place, with their places (U1); some are read under the lock at a time."""
    start: bytes | None = after + b"\0" if after else b""
    while start is not None:
        found, start = _read(p, start)
        yield from found


@whole
def _read(p: Pipeline, start: bytes) -> tuple[list[tuple[bytes, BuriedRow]], bytes | None]:
    """The next ones, and where to go on."""
    with p.lock:
        p.enter()
        names = [bytes(name) for name in islice(p.state.names_from(b"buried", start), ROWS)]
        found = [(name, _row(p.state, name)) for name in names]
        settle_at = max((row.row.at for _, row in found if p.must_settle(row.row.at)), default=-1)
    if settle_at >= 0:
        p.settle(settle_at)
    give_way()
    return found, names[-1] + b"\0" if len(names) == ROWS else None


def _row(state: StoredState, name: bytes) -> BuriedRow:
    value = next(value for rows in state.generations if (value := rows.get(name, db=rows.buried)) is not None)
    return state.buried(name, value)


def count(p: Pipeline, wanted: Filter) -> int:
    """How many there are of these dates, buckets and owner."""
    if wanted == Filter(wanted.status):
        with p.lock:
            p.enter()
            return p.state.size(b"buried")
    which = Which(wanted=wanted)
    with moment_of(p):
        return sum(which.has(row) for _, row in walk(p))


def buried(p: Pipeline, asked: BuriedRequest, caller: Caller) -> BuriedPage:
    """Those that are asked for, in the order of burial; with a limit a page, which says where to go on."""
    which = Which(asked.prefix, asked.reason)
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


def retry(p: Pipeline, asked: RetryRequest, caller: Caller) -> PutResult:
    """Let the buried entry with this key (the last one) wait again, due now."""
    (result,) = retry_many(p, RetryManyRequest(keys=[asked.key], durability=asked.durability), caller)
    if isinstance(result, JournalError):
        raise result
    return result


def retry_many(p: Pipeline, asked: RetryManyRequest, caller: Caller) -> list[PutResult | JournalError]:
    """Let many wait again: one record, one sync; a result or an error for each."""
    level = p.level_of(asked.durability, p.level)
    keys = asked.keys

    def make() -> tuple[list[PutResult | JournalError], int]:
        now = p.enter()
        raws: dict[UserKey, bytes] = {}
        results: list[PutResult | JournalError] = []
        for key in keys:
            try:
                raws[key] = key_bytes(key)
            except (Invalid, TypeError):
                continue  # told below
        seen, refused = look_up(p, list(raws.items()), now)
        effects: list[fx.Effect] = []
        size = 0
        for key in keys:
            try:
                name, buried = _last_buried(p, key, key_bytes(key))
                if key in refused:
                    raise refused[key]
                row = _retried(key, buried, seen[key], now, p.log.next_offset + len(effects))
            except (Invalid, Refused) as e:
                results.append(e)
                continue
            seen[key] = lifecycle.Found(row.primary[SLOT_AT:], row)
            value = encode_row(row)
            size += len(value) + 100
            if size > GROUP_BYTES_MAX:
                raise Invalid(
                    f"the entries have more than {GROUP_BYTES_MAX} bytes: nothing was changed; split the group"
                )
            effects.append(fx.Retry(name, row.primary, value))
            priority, date = place(row.primary)
            results.append(PutResult("retried", cursor_of(row.at), row.version, date, priority))
        count_results(p.tally.retry, results)
        if not effects:
            return results, -1
        effect = effects[0] if len(effects) == 1 else fx.Group([fx.to_list(each) for each in effects])
        at = p.write(effect, len(effects), now, level, partial(p.state.apply, effect))
        return results, at + len(effects) - 1

    return p.change(level, make)


def _retried(key: UserKey, buried: BuriedRow, found: lifecycle.Found, now: int, at: int) -> Row:
    if found.row is not None:
        raise KeyExists(f"there is a newer entry with the key {key!r}: discard the buried one, or finish the other")
    return lifecycle.retry(buried, found.slot, now, at)


def discard(p: Pipeline, asked: DiscardRequest, caller: Caller) -> None:
    """Delete the buried entry with this key (the last one)."""
    raw = key_bytes(asked.key)
    level = p.level_of(asked.durability, p.level)

    def make() -> tuple[None, int]:
        now = p.enter()
        try:
            effect = fx.Unbury(_last_buried(p, asked.key, raw)[0], asked.key)
        except NotFound:
            p.tally.discard["refused"] += 1
            raise
        at = p.write(effect, 1, now, level, partial(p.state.apply, effect), is_essential=True)
        p.tally.discard["discarded"] += 1
        return None, at

    p.change(level, make)


def _last_buried(p: Pipeline, key: UserKey, raw: bytes) -> tuple[bytes, BuriedRow]:
    """The buried entry of a key that was buried last."""
    state = p.state
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
