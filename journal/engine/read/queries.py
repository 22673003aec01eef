"""
The reading verbs for producers, consumers and operators: selections, owners, look-ups of many keys, the load ahead.

They read some hundred rows, or some thousand keys, under the lock at a time, so a large read does not block other callers. In a
store opened with readonly=True each call sees one moment.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import Any

from journal.core.arguments import owner_bytes
from journal.core.entry.keys import BEHIND_ALL, UserKey, key_bytes, owner_in, owner_key
from journal.core.entry.rows import Row
from journal.core.forecast.forecast import Forecast, ForecastTally
from journal.core.limits import NEVER
from journal.core.requests.operate import OwnersRequest
from journal.core.requests.read import (
    CountOfRequest,
    CountRequest,
    EntriesOfRequest,
    ForecastRequest,
    GetManyRequest,
    GetRequest,
    ScanRequest,
    SelectRequest,
)
from journal.core.values import Page
from journal.engine.arguments import bucket_bounds
from journal.engine.caller import Caller
from journal.engine.handlers import handles
from journal.engine.read.path import ReadPath
from journal.engine.read.selection import Filter, Selection
from journal.engine.readonly import moment_of
from journal.shield import give_way

LIMIT = 100
"""Entries of a page when the request does not say how many."""
STEP, HORIZON = "1m", "1h"
"""Of a forecast that does not say."""
LOOK_UPS = 256
"""Keys that are looked up under the lock at a time."""
KEYS = 4096
"""Keys that are counted under the lock at a time: a millisecond."""


def filter_of(p: ReadPath, asked: SelectRequest | CountRequest | ScanRequest) -> Filter:
    """What a request selects."""
    owner = consumer = buckets = None
    if not isinstance(asked, ScanRequest):
        owner, consumer, buckets = asked.owner, asked.consumer, asked.buckets
    return Filter(
        asked.status,
        0 if asked.since is None else asked.since,
        NEVER if asked.until is None else asked.until,
        None if owner is None else owner_bytes(owner),
        consumer,
        bucket_bounds(buckets, p.settings),
    )


@handles(SelectRequest)
def select(p: ReadPath, asked: SelectRequest, caller: Caller) -> Page:
    """A page of the entries that are selected, in the order of work."""
    return Selection(p, filter_of(p, asked)).page(asked.limit or LIMIT, _start(asked.after))


@handles(EntriesOfRequest)
def entries_of(p: ReadPath, asked: EntriesOfRequest, caller: Caller) -> Page:
    """A page of the entries of a producer group, in the order of work."""
    return Selection(p, Filter(owner=owner_bytes(asked.owner))).page(asked.limit or LIMIT, _start(asked.after))


def _start(after: bytes | None) -> bytes:
    return b"" if after is None else after + b"\0"


@handles(CountOfRequest)
def count_of(p: ReadPath, asked: CountOfRequest, caller: Caller) -> int:
    """How many entries a producer group has."""
    return Selection(p, Filter(owner=owner_bytes(asked.owner))).count()


@handles(OwnersRequest)
def owners(p: ReadPath, asked: OwnersRequest, caller: Caller) -> dict[str, int]:
    """The producer groups that have entries, and how many."""
    found: dict[str, int] = {}
    start: bytes | None = b""
    with moment_of(p):
        while start is not None:
            page, start = owners_from(p, start)
            give_way()
            for owner, count in page:
                found[owner] = found.get(owner, 0) + count
    return dict(sorted(found.items()))


def owners_from(p: ReadPath, start: bytes) -> tuple[list[tuple[str, int]], bytes | None]:
    """Producer groups and how many of their entries are next in their index, and where to go on in it."""
    with p.lock:
        p.enter()
        page = list(islice(p.state.names_from(b"owners", start), KEYS))
    found: list[tuple[str, int]] = []
    at = 0
    while at < len(page):
        owner = owner_in(page[at])
        end = bisect_left(page, owner_key(owner, BEHIND_ALL), at)
        found.append((owner.decode(), end - at))
        at = end
    return found, page[-1] + b"\0" if len(page) == KEYS else None


StatusRow = tuple[Row, str, int]
"""An entry as it is stored, its status, and when its lease began."""


@handles(GetRequest)
def get(p: ReadPath, asked: GetRequest, caller: Caller) -> Any:
    """The entry with this key, or None."""
    (found,) = rows_of(p, [(asked.key, key_bytes(asked.key))])
    return None if found is None else caller.entry(*found)


@handles(GetManyRequest)
def get_many(p: ReadPath, asked: GetManyRequest, caller: Caller) -> list[Any]:
    """The entries with these keys, None for each that there is not, in order."""
    wanted = [(key, key_bytes(key)) for key in asked.keys]
    found: list[Any] = []
    with moment_of(p):
        for start in range(0, len(wanted), LOOK_UPS):
            rows = rows_of(p, wanted[start : start + LOOK_UPS])
            give_way()
            found += [None if row is None else caller.entry(*row) for row in rows]
    return found


def rows_of(p: ReadPath, keys: list[tuple[UserKey, bytes]]) -> list[StatusRow | None]:
    """The entries with these keys."""
    found: list[StatusRow | None] = []
    with p.lock:
        now = p.enter()
        state = p.state
        for key, raw in keys:
            stored = state.find(key, raw)
            row = stored.row
            if row is None or (0 < row.expiration <= now and not stored.is_processing):
                found.append(None)
                continue
            held = state.leases.by_primary.get(row.primary)
            found.append((row, "W", 0) if held is None else (row, "P", held.start))
        settle_at = p.last_unsettled(each[0].at for each in found if each is not None)
    p.settle(settle_at)
    return found


@handles(ForecastRequest)
def forecast(p: ReadPath, asked: ForecastRequest, caller: Caller) -> Forecast:
    """How many entries fall due in each of the coming steps, read from the keys alone."""
    with moment_of(p):
        with p.lock:
            now = p.enter()
        tally = ForecastTally(
            now if asked.since is None else asked.since,
            step=STEP if asked.step is None else asked.step,
            horizon=HORIZON if asked.horizon is None else asked.horizon,
        )
        start = b""
        while True:
            with p.lock:
                p.enter()
                state = p.state
                page = list(islice(state.names_from(b"entries", start), KEYS))
                leases = state.leases.by_primary
                processing = [primary for primary in page if primary in leases] if leases else []
            tally.add_places(page, processing)
            if len(page) < KEYS:
                return tally.forecast()
            start = page[-1] + b"\0"
