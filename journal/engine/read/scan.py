"""
Scans and counts: pages of entries read under the lock, a few hundred at a time, so that no caller is blocked for long.

A range of dates is read by one seek for each priority in use; entries outside of it are never visited.

With readonly=True a scan blocks no caller: it reads for half a second, or some megabytes, at one moment (readonly S2), and goes on at a
later one when there is more. An entry that stays where it is is met exactly once all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

from journal.core.arguments import AVAILABLE, BURIED
from journal.core.entry.keys import pack_bound
from journal.core.entry.rows import Row, place
from journal.core.limits import NEVER
from journal.core.requests.read import ScanRequest
from journal.core.values import Entry, entry_of
from journal.engine.read.burials import BuriedFilter, count, walk
from journal.engine.read.path import ReadPath
from journal.engine.read.selection import Filter, Selection, filled, may_be_expired
from journal.engine.readonly import moment_of
from journal.shield import whole

PAGE = 256
LOOK_S = 0.5
LOOK_BYTES = 16 << 20

_Found = tuple[Row, int | None]
"""An entry, and when its lease began."""


class Reads:
    """Reads over all entries of a journal."""

    def __init__(self, pipeline: ReadPath) -> None:
        self._p = pipeline

    def scan(self, asked: ScanRequest) -> Iterator[Entry]:
        """Entries in the order of work; with all fields of the schemas, None for those that an entry does not have."""
        status = asked.status
        since, until = 0 if asked.since is None else asked.since, NEVER if asked.until is None else asked.until
        blank = self._p.blank
        if status == BURIED:
            which = BuriedFilter(wanted=Filter(None, since, until))
            yield from (filled(entry_of(b.row, BURIED), blank) for _, b in walk(self._p) if which.has(b))
            return
        start: bytes | None = pack_bound(0, since)
        while start is not None:
            page, start = self._pages(start, status, since, until)
            entries = (entry_of(row) if began is None else entry_of(row, "P", began) for row, began in page)
            yield from entries if blank is None else (filled(entry, blank) for entry in entries)

    @whole
    def _pages(self, start: bytes, status: str | None, since: int, until: int) -> tuple[list[_Found], bytes | None]:
        """What is read at one moment from `start` on, and where the next ones begin: a page, or of a look many."""
        if self._p.is_writable:
            return self._page(start, status, since, until)
        found: list[_Found] = []
        size, deadline = 0, monotonic() + LOOK_S
        following: bytes | None = start
        with moment_of(self._p):
            while following is not None and size < LOOK_BYTES and monotonic() < deadline:
                page, following = self._page(following, status, since, until)
                size += sum(len(row.data) for row, _ in page)
                found += page
        return found, following

    def count(self, wanted: Filter) -> int:
        """How many; of a status or of all, with nothing left to expire, read from the root pages."""
        p = self._p
        if wanted.status == BURIED:
            return count(p, wanted)
        if wanted == Filter(wanted.status) and wanted.status != AVAILABLE:
            with p.lock:
                now = p.enter()
                state = p.state
                if not may_be_expired(state, now) and p.timer_at > now:
                    entries, processing = state.size(), len(state.leases)
                    return {None: entries, "P": processing, "W": entries - processing}[wanted.status]
        return Selection(p, wanted).count()

    @whole
    def _page(self, start: bytes, status: str | None, since: int, until: int) -> tuple[list[_Found], bytes | None]:
        """One page from `start` on, and where the next one begins."""
        p = self._p
        found: list[_Found] = []
        with p.lock:
            now = p.enter()
            state = p.state
            if status == AVAILABLE:
                status, until = "W", min(until, now + 1)
            following: bytes | None = None
            for primary, value in state.entries_from(start, PAGE):
                priority, date = place(primary)
                if not since <= date < until:
                    # Jump to the range of this priority, or of the next one.
                    if date < since:
                        following = pack_bound(priority, since)
                    else:
                        following = None if priority == 255 else pack_bound(priority + 1, since)
                    break
                following = primary + b"\0"
                held = state.leases.by_primary.get(primary)
                if status is not None and (held is not None) != (status == "P"):
                    continue
                row = state.row(primary, value)
                if held is None and row.expiration and row.expiration <= now:
                    continue
                found.append((state.counted(row), None if held is None else held.start))
            settle_at = p.last_unsettled(row.at for row, _ in found)
        p.settle(settle_at)
        return found, following
