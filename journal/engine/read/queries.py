"""
The reading verbs for producers, consumers and operators: selections, owners, look-ups of many keys, the load ahead.

They read some hundred rows, or some thousand keys, under the lock at a time, so a large read does not block other callers. In a
store opened with readonly=True each call sees one moment.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable
from itertools import islice

from journal.core.buckets import Range
from journal.core.entry.keys import BEHIND_ALL, UserKey, key_bytes, owner_in, owner_key
from journal.core.entry.rows import Row
from journal.core.forecast.forecast import Forecast, Tally
from journal.core.times import DateLike, DurationLike
from journal.core.values import Entry, Page, entry_of
from journal.engine.arguments import (
    bucket_bounds,
    consumer_name,
    date_range,
    limit_number,
    listed,
    owner_bytes,
    page_start,
    selectable,
    status_of,
)
from journal.engine.read.selection import Filter, Selection
from journal.engine.readonly import moment_of
from journal.engine.snapshots.snapshot import Snapshot
from journal.engine.snapshots.take import take
from journal.engine.work.lookup import Side
from journal.errors import Invalid
from journal.shield import SHIELD, exposed, give_way, shielded

LOOK_UPS = 256
"""Keys that are looked up under the lock at a time."""
KEYS = 4096
"""Keys that are counted under the lock at a time: a millisecond."""


@shielded
class Reading(Side):
    """The verbs of readers."""

    def select(
        self,
        *,
        buckets: Range | None = None,
        since: DateLike | None = None,
        until: DateLike | None = None,
        status: str | None = None,
        owner: str | None = None,
        consumer: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page:
        """
        Entries in the order of work: of a range of buckets, with `since <= process date < until`, of a status, of an owner,
        under the leases of a consumer; all that is given must hold.

        A status is "waiting", "processing", or "available": waiting, and due now. A page that `has_more` says where to go on.
        """
        wanted = self._filter(status, since, until, owner, consumer, buckets)
        selectable(wanted.status)
        limit_number(limit)
        start = page_start(after)
        return Selection(self._p, wanted).page(limit, start)

    def _filter(
        self,
        status: str | None,
        since: DateLike | None,
        until: DateLike | None,
        owner: str | None,
        consumer: str | None,
        buckets: Range | None,
    ) -> Filter:
        return Filter(
            status_of(status),
            *date_range(since, until),
            None if owner is None else owner_bytes(owner),
            None if consumer is None else consumer_name(consumer),
            bucket_bounds(buckets, self._p.settings),
        )

    def entries_of(self, owner: str, *, limit: int = 100, after: str | None = None) -> Page:
        """The entries of a producer group in the order of work, processing ones too."""
        limit_number(limit)
        return Selection(self._p, Filter(owner=_group(owner))).page(limit, page_start(after))

    def count_of(self, owner: str) -> int:
        """How many entries a producer group has."""
        return Selection(self._p, Filter(owner=_group(owner))).count()

    def owners(self) -> dict[str, int]:
        """The producer groups that have entries, and how many."""
        found: dict[str, int] = {}
        start: bytes | None = b""
        with moment_of(self._p):
            while start is not None:
                page, start = self._owners(start)
                give_way()
                for owner, count in page:
                    found[owner] = found.get(owner, 0) + count
        return dict(sorted(found.items()))

    def _owners(self, start: bytes) -> tuple[list[tuple[str, int]], bytes | None]:
        """Producer groups and how many of their entries are next in their index, and where to go on in it."""
        p = self._p
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

    @exposed
    def get_many(self, keys: Iterable[UserKey]) -> list[Entry | None]:
        """The entries with these keys, None for each that there is not, in order."""
        wanted = [(key, key_bytes(key)) for key in listed(keys, "get_many")]
        found: list[Entry | None] = []
        with SHIELD, moment_of(self._p):
            for start in range(0, len(wanted), LOOK_UPS):
                rows = self._rows(wanted[start : start + LOOK_UPS])
                give_way()
                found += [None if row is None else entry_of(*row) for row in rows]
        return found

    def _rows(self, keys: list[tuple[UserKey, bytes]]) -> list[tuple[Row, str, int] | None]:
        """The entries with these keys as they are stored, with their status, and when their leases began."""
        p = self._p
        settle_at = -1
        found: list[tuple[Row, str, int] | None] = []
        with p.lock:
            now = p.enter()
            for key, raw in keys:
                stored = p.state.find(key, raw)
                row = stored.row
                if row is None or (0 < row.expiration <= now and not stored.is_processing):
                    found.append(None)
                    continue
                held = p.state.leases.by_primary.get(row.primary)
                found.append((row, "W", 0) if held is None else (row, "P", held.start))
                if p.must_settle(row.at):
                    settle_at = max(settle_at, row.at)
        if settle_at >= 0:
            p.settle(settle_at)
        return found

    def snapshot(self, *, directory: str | os.PathLike[str] | None = None) -> Snapshot:
        """
        All entries as they are now, copied to files, to be read in parts by many processes while the journal goes on.

        The files lie in `directory`, or in the store; they go when the snapshot is closed. One that is not closed goes with
        the store, unless it lies in a directory that was given. A store that was opened with readonly=True shows its owner's
        last checkpoint.
        """
        return take(self._p, directory)

    def forecast(
        self, *, step: DurationLike = "1m", horizon: DurationLike = "1h", since: DateLike | None = None
    ) -> Forecast:
        """
        How many entries fall due in each of the coming steps, by priority and status; from now on, or from a date.

        Read from the keys alone, no payload is touched. See `journal.core.forecast.forecast` for what it tells.
        """
        with moment_of(self._p):
            return self._forecast(step, horizon, since)

    def _forecast(self, step: DurationLike, horizon: DurationLike, since: DateLike | None) -> Forecast:
        p = self._p
        with p.lock:
            now = p.enter()
        tally = Tally(now if since is None else since, step=step, horizon=horizon)
        start = b""
        while True:
            with p.lock:
                p.enter()
                page = list(islice(p.state.names_from(b"entries", start), KEYS))
                leases = p.state.leases.by_primary
                processing = [primary for primary in page if primary in leases] if leases else []
            tally.add_places(page, processing)
            if len(page) < KEYS:
                return tally.forecast()
            start = page[-1] + b"\0"


def _group(owner: str) -> bytes:
    if owner is None:
        raise Invalid("owner is None: entries that nobody owns are in no index; give the name of a producer group")
    return owner_bytes(owner)
