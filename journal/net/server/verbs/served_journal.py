"""
A journal as the daemon serves it: data comes and goes packed, leases are rows, and no client acts under a name that it may not use.

The engine's own verbs do the work. They pack, check and make leases through attributes of the journal, which are replaced here; so the
rules, the records and the locks are those of an embedded journal.

S1  Packed data is stored and sent as it is (journal.engine.work.packed_data).
S2  A lease belongs to its consumer: an identity that may not act under the consumer's name can neither read nor end it. This is checked
    where the engine looks the lease up, under its lock. For an identity that may act under every name there is no check.
S3  What is taken by a claim fits into a frame: the rest of what was due is not taken.
S4  An entry that fits into none is passed over, and stays where it was (journal.net.server.verbs.oversize).
"""

from __future__ import annotations

from typing import Any, cast

from journal.core.entry.rows import ENTRY_HEAD, Row
from journal.core.limits import CONSUMER_BYTES_MAX
from journal.core.quoting import shown
from journal.core.settings import MERGED
from journal.engine.journal import Journal
from journal.engine.loads.prepare import Bounds
from journal.engine.merged.backend import MergedJournals
from journal.engine.state.leases import Held
from journal.engine.state.order import Order
from journal.engine.store import Store
from journal.engine.work.packed_data import check_packed, checked_packed
from journal.errors import AccessDenied, NotFound
from journal.net.server.verbs.frame_sizes import LEASE_BYTES, lease_columns, text_bytes
from journal.net.server.verbs.oversize import Large
from journal.net.wire.auth import EVERYTHING, Grant

HEAD_BYTES = 256
"""Of a frame, for what is around the value of a reply or the items of a push."""
BESIDES_BYTES = 8192 - HEAD_BYTES
"""For what comes with the data of an entry: its key, the names, the dates, the reason why it was buried."""
STEP = 16
"""Entries that a claim of many takes at first; it then knows how large they are."""
GRANTS = 1024
NAMES = 1024
"""Identities, and consumers of each, whose rights are remembered."""


class Wired(Journal):
    """The journal whose verbs take and give what is on the wire (S1)."""

    def __init__(self, journal: Journal, room: int, grant: Grant = EVERYTHING) -> None:
        for name, value in vars(journal).items():
            setattr(self, name, value)
        self._pack = check_packed
        self._checked = checked_packed
        self._made = lease_columns  # type: ignore[assignment]  # the engine hands it out, and never looks at it
        self.room = room
        self.grant = grant
        self._bounds = Bounds(data_max_of(room), None if "*" in grant.names else grant.may_act_as)
        self.large = Large(room)
        self._value_max = room - LEASE_BYTES - CONSUMER_BYTES_MAX + ENTRY_HEAD
        """The most bytes of a stored entry whose lease fits into a frame, whatever its consumer's name."""
        self._aside: list[tuple[bytes, bytes]] = []
        """Taken out of the order by the claim that is being made, and too large (S4)."""

    def _take(self, order: Order, n: int, now: int, below: int) -> list[Row]:
        """Up to `n` due entries that fit into a frame together (S3, S4)."""
        p = self._p
        rows: list[Row] = []
        aside = self._aside = []
        used, step = 0, STEP
        while used < self.room and len(rows) < n:
            step = min(step, n - len(rows))
            found = super()._take(order, step, now, below)
            rows += found
            p.is_broken = bool(rows or aside)  # until the leases are written, also of those that were taken before
            used += sum(map(_lease_bytes, found))
            if len(found) < step:
                break
            step = max(1, (self.room - used) * len(rows) // used)
        while used > self.room and len(rows) > 1:
            row = rows.pop()
            used -= _lease_bytes(row)
            p.state.order.returned(row.primary, len(p.state.leases))
        for primary, value in aside:
            p.state.order.returned(primary, len(p.state.leases))
            if self.large.is_new(primary):
                row = p.state.row(primary, value)
                self.large.noted(primary, row.key, len(row.data))
        self.large.is_ahead = bool(aside)
        p.is_broken = bool(rows)
        return rows

    def _taken(self, items: list[tuple[bytes, bytes]], now: int) -> list[Row]:
        fitting = [item for item in items if len(item[1]) <= self._value_max]
        if len(fitting) < len(items):
            self._aside += [item for item in items if len(item[1]) > self._value_max]
        return super()._taken(fitting, now)


def data_max_of(room: int) -> int:
    """Bytes of data that can be handed out in a frame with so much room, whatever comes with them."""
    return room - min(BESIDES_BYTES, room // 2)


def _lease_bytes(row: Row) -> int:
    """What a lease on this entry takes in a frame, at most."""
    return LEASE_BYTES + CONSUMER_BYTES_MAX + len(row.data) + len(row.owner) + text_bytes(row.key)


class Guarded(Wired):
    """The same for an identity that may act under some names (S2)."""

    def __init__(self, journal: Journal, room: int, grant: Grant) -> None:
        super().__init__(journal, room, grant)
        self._names: dict[str, bool] = {}

    def _check(self, held: Held) -> None:
        consumer = held.consumer
        may = self._names.get(consumer)
        if may is None:
            may = self.grant.may_act_as(consumer)
            if len(self._names) < NAMES:
                self._names[consumer] = may
        if not may:
            raise AccessDenied(
                f"{shown(self.grant.identity)} may not act under the name {shown(consumer)}, whose lease this is"
            )

    def _done_items(self, token: int, held: Held | None, now: int, offset: int) -> list[Any]:
        if held is not None:
            self._check(held)
        return super()._done_items(token, held, now, offset)

    def _held(self, token: Any, now: int, counts: dict[str, int] | None = None) -> Held:
        held = super()._held(token, now, counts)
        self._check(held)
        return held


class Served:
    """A journal as the daemon serves it."""

    def __init__(self, journal: Journal, room: int) -> None:
        self.journal = journal
        """The engine's, with data as values."""
        self.p = journal._p
        self.room = room
        """Bytes that a reply or a push may hold."""
        self.data_max = data_max_of(room)
        """Bytes of data that fit into a frame with whatever comes with them."""
        self.wired = Wired(journal, room)
        self._guarded: dict[int, Wired] = {}
        """By the id of its grant, which each of them keeps: a grant is not hashed for each request."""

    def as_(self, grant: Grant) -> Wired:
        """The journal for an identity."""
        if grant is EVERYTHING:
            return self.wired
        guarded = self._guarded.get(id(grant))
        return self._guard(grant) if guarded is None else guarded

    def _guard(self, grant: Grant) -> Wired:
        if len(self._guarded) >= GRANTS:
            self._guarded.clear()
        may_all = "*" in grant.names
        guarded = self._guarded[id(grant)] = (
            Wired(self.journal, self.room, grant) if may_all else Guarded(self.journal, self.room, grant)
        )
        return guarded


class ServedLog:
    """All merged journals together, under the name MERGED: their log, for the commands about logs (Command.is_of_log)."""

    def __init__(self, merged: MergedJournals, room: int) -> None:
        self.journal = merged
        self.p = merged._p
        self.room = room


def room_of(store: Store) -> int:
    """Bytes that a reply or a push may hold."""
    return store._frame_bytes_max - HEAD_BYTES


def known(store: Store, name: str) -> Served | None:
    """The journal of this name, if it is open: looked up in memory, without a lock."""
    journal = store._journals.get(name)
    if journal is None:
        return None
    served: Served | None = journal._served
    if served is None:
        served = journal._served = Served(journal, room_of(store))
    return served


def served_of(store: Store, name: str, grant: Grant = EVERYTHING) -> Served:
    """The journal of this name; opened, which may take long, when it has not been used yet. It is never declared here."""
    served = known(store, name)
    if served is None and name == MERGED and store._has_merged():
        return cast(Served, ServedLog(store.merged(), room_of(store)))
    if served is None:
        names = store.journals()
        if name not in names:
            seen = sorted(filter(grant.may_see, names))
            listed = ", ".join(seen[:20]) + (", …" if len(seen) > 20 else "")
            raise NotFound(f"there is no journal {shown(name)}: there are {listed or 'none'}; DECLARE makes one")
        store.journal(name)
        served = known(store, name)
        if served is None:
            raise NotFound(f"the journal {shown(name)} was dropped in this moment")
    return served
