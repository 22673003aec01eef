"""
Selections: the entries of an owner, of a consumer, of a range of buckets, of a status, up to a date; in the order of work.

Three ways lead to them, and the shortest is taken: the leases in memory, the owners index, the entries themselves. All are
walked by key, some at a time under the lock; what is not selected costs a key and never a payload.

T1  A walk goes up the order of work and never back: an entry that stays where it is is met exactly once, also when it moves to
    another generation meanwhile. What changes its place is seen once, twice or not at all.
T2  What is shown could not vanish any more: a row whose writer still waits for its sync is waited for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, takewhile
from typing import NamedTuple

from journal.core.arguments import AVAILABLE
from journal.core.entry.keys import BEHIND_ALL, SLOT_AT, owner_key, pack_bound
from journal.core.entry.rows import Row, place
from journal.core.limits import NEVER
from journal.core.values import Entry, Page, entry_of
from journal.engine.read.path import ReadPath
from journal.engine.readonly import moment_of
from journal.engine.state.apply import JournalState
from journal.engine.state.leases import Held
from journal.shield import give_way

ROWS = 256
"""So many payloads are read under the lock at a time …"""
KEYS = 2048
"""… and so many keys looked at: half a millisecond."""


class Filter(NamedTuple):
    """What is selected."""

    status: str | None = None
    since: int = 0
    until: int = NEVER
    owner: bytes | None = None
    consumer: str | None = None
    slots: tuple[bytes, bytes] | None = None
    """The range of buckets, as bounds of slots."""

    def at(self, now: int) -> Filter:
        """The same with dates for what is available at a time."""
        if self.status != AVAILABLE:
            return self
        return self._replace(status="W", until=min(self.until, now + 1))

    def has_lease(self, held: Held | None) -> bool:
        """Whether an entry with this lease, or without one, is selected."""
        if self.consumer is not None and (held is None or held.consumer != self.consumer):
            return False
        return self.status is None or (held is not None) == (self.status == "P")

    def has_place(self, primary: bytes) -> bool:
        """Whether an entry at this primary key is selected, as far as that tells."""
        if self.slots is not None and not self.slots[0] <= primary[SLOT_AT:] < self.slots[1]:
            return False
        return (self.since == 0 and self.until == NEVER) or self.since <= place(primary)[1] < self.until


class Selection:
    """The entries that a filter lets through."""

    def __init__(self, p: ReadPath, wanted: Filter) -> None:
        self._p = p
        self._wanted = wanted
        self._leased = self._leases()

    def rows(self, most: int, start: bytes = b"") -> list[tuple[Row, Held | None]]:
        """Up to `most` entries with their leases, from `start` on; with readonly=True of one moment."""
        found: list[tuple[Row, Held | None]] = []
        following: bytes | None = start
        with moment_of(self._p):
            while following is not None and len(found) < most:
                following, settle_at = self.read(following, most, found)
                self._p.settle(settle_at)  # T2
        return found

    def page(self, limit: int, start: bytes) -> Page:
        """Up to `limit` entries from `start` on, as a page."""
        found = self.rows(limit + 1, start)
        has_more = len(found) > limit
        blank = self._p.blank
        entries = [
            filled(entry_of(row) if h is None else entry_of(row, "P", h.start), blank) for row, h in found[:limit]
        ]
        return Page(entries, has_more, found[limit - 1][0].primary.hex() if has_more else None)

    def count(self) -> int:
        """How many; with readonly=True of one moment."""
        with moment_of(self._p):
            return self._count()

    def _count(self) -> int:
        p, wanted = self._p, self._wanted
        # What the way itself selects, so that nothing is left to look at.
        as_walked = Filter(owner=wanted.owner) if wanted.owner is not None else Filter(None, wanted.since, wanted.until)
        count = 0
        following: bytes | None = b""
        while following is not None:
            with p.lock:
                now = p.enter()
                state = p.state
                page, following = self._keys(state, following, now)
                if wanted == as_walked and not may_be_expired(state, now):
                    count += len(page)
                else:
                    count += sum(1 for _ in self._kept(state, page, now))
            give_way()
        return count

    def _leases(self) -> list[bytes] | None:
        """The places of the leases that are in question, in order; None when it is not leases that are selected."""
        wanted, p = self._wanted, self._p
        if wanted.consumer is None and wanted.status != "P":
            return None
        with p.lock:
            p.enter()
            leases = p.state.leases
            if wanted.consumer is not None:
                return sorted(held.primary for held in leases.of(wanted.consumer))
            places = list(leases.by_primary)
        return sorted(places)  # there may be many: not under the lock

    def read(self, start: bytes, most: int, found: list[tuple[Row, Held | None]]) -> tuple[bytes | None, int]:
        """Read up to ROWS more, until there are `most`; where to go on, and what must be durable before it is shown (T2)."""
        p = self._p
        with p.lock:
            now = p.enter()
            state = p.state
            page, following = self._keys(state, start, now)
            first, room = len(found), min(most, len(found) + ROWS)
            for primary in self._kept(state, page, now):
                found.append((state.counted(state.entry(primary)), state.leases.by_primary.get(primary)))
                if len(found) == room:
                    following = primary + b"\0"
                    break
            return following, p.last_unsettled(row.at for row, _ in found[first:])

    def _kept(self, state: JournalState, page: list[bytes], now: int) -> Iterator[bytes]:
        """Those of a page of keys that are selected."""
        wanted = self._wanted.at(now)
        by_primary = state.leases.by_primary
        has_expired = may_be_expired(state, now)
        for primary in page:
            held = by_primary.get(primary)
            if not wanted.has_lease(held) or not wanted.has_place(primary):
                continue
            if has_expired and held is None and 0 < state.expiration_of(primary) <= now:
                continue
            yield primary

    def _keys(self, state: JournalState, start: bytes, now: int) -> tuple[list[bytes], bytes | None]:
        """The next places to look at from `start` on, and where the next ones begin (T1)."""
        wanted = self._wanted
        if self._leased is not None:
            at = bisect_right(self._leased, start)
            page = self._leased[at : at + KEYS]
            if wanted.owner is not None:
                held = [state.leases.by_primary.get(primary) for primary in page]
                kept = [each.primary for each in held if each is not None and each.owner == wanted.owner]
                return kept, _behind(page)
            return [primary for primary in page if primary in state.leases.by_primary], _behind(page)
        if wanted.owner is not None:
            prefix = owner_key(wanted.owner, b"")
            names = list(islice(state.names_from(b"owners", prefix + start), KEYS))
            page = [name[len(prefix) :] for name in names[: bisect_right(names, prefix + BEHIND_ALL)]]
            return page, _behind(page)
        at_now = wanted.at(now)
        return places_from(state, start, at_now.since, at_now.until)


def places_from(state: JournalState, start: bytes, since: int, until: int) -> tuple[list[bytes], bytes | None]:
    """Up to KEYS entries at or above a primary key, with `since <= process date < until`, and where the next ones begin."""
    if since == 0 and until == NEVER:
        page = list(islice(state.names_from(b"entries", start), KEYS))
        return page, _behind(page)
    found: list[bytes] = []
    while len(found) < KEYS:
        first = next(state.names_from(b"entries", start), None)
        if first is None:
            return found, None
        priority, date = place(first)
        if date < since:
            start = pack_bound(priority, since)
            continue
        if date < until:
            end = pack_bound(priority, until)
            found += takewhile(end.__gt__, islice(state.names_from(b"entries", first), KEYS - len(found)))
            start = found[-1] + b"\0"
        elif priority == 255:
            return found, None
        else:
            start = pack_bound(priority + 1, since)
    return found, start


def filled(entry: Entry, blank: dict[str, object] | None) -> Entry:
    """The entry with all fields of the schemas, None for those that it does not have."""
    if blank is None or not isinstance(entry.data, dict):
        return entry
    return replace(entry, data=blank | entry.data)


def may_be_expired(state: JournalState, now: int) -> bool:
    """Whether the timers have something left to remove, or cannot: the store is full, or not ours (timers Y2)."""
    return state.next_expiration is not None and state.next_expiration <= now


def _behind(page: list[bytes]) -> bytes | None:
    return page[-1] + b"\0" if len(page) == KEYS else None
