"""
A journal as the daemon serves it: data comes and goes packed, and no client acts under a name that it may not use.

The engine's own verbs do the work, for a `Caller` (journal.engine.caller); so the rules, the records and the locks are those of an
embedded journal.

S1  Packed data is stored and sent as it is. What is stored through a frame can be handed out in one: data that leaves no room for what
    a lease has besides is refused, in a group in the place of its item.
S2  A lease belongs to its consumer: an identity that may not act under the consumer's name can neither read nor end it (Caller.check).
    For an identity that may act under every name there is no check.
S3  What is taken by a claim fits into a frame: the rest of what was due is not taken. An entry that fits into none is passed over, and
    stays where it was (journal.net.server.verbs.oversize).
S4  What an identity may not put it may not load: rows of a producer group that it may not act under, and data that could not be
    handed out in a frame, are wrong rows (Caller.bounds).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from journal.core.entry.rows import BIN8
from journal.core.quoting import shown
from journal.core.settings import MERGED
from journal.engine.arguments import Oversize
from journal.engine.backend import EngineJournal, EngineLog
from journal.engine.caller import LOCAL, Bounds, Caller, check_packed, checked_packed
from journal.engine.state.leases import Held
from journal.engine.store import EngineStore
from journal.errors import AccessDenied, NotFound
from journal.net.server.verbs.oversize import Large
from journal.net.wire.auth import EVERYTHING, Grant
from journal.net.wire.values import entry_to

HEAD_BYTES = 256
"""Of a frame, for what is around the value of a reply or the items of a push."""
BESIDES_BYTES = 8192 - HEAD_BYTES
"""For what comes with the data of an entry: its key, the names, the dates, the reason why it was buried."""
STEP = 16
"""Entries that are read under the lock at a time."""
GRANTS = 1024
NAMES = 1024
"""Identities, and consumers of each, whose rights are remembered."""


class ServedLog:
    """The log of all merged journals together, under the name MERGED: for the commands about logs (Command.is_of_log)."""

    def __init__(self, journal: EngineLog, room: int) -> None:
        self.journal = journal
        self.p = journal.p
        self.room = room
        """Bytes that a reply or a push may hold."""

    def caller(self, grant: Grant) -> Caller:
        """As whom an identity calls the engine."""
        return LOCAL


class Served(ServedLog):
    """A journal as the daemon serves it."""

    journal: EngineJournal

    def __init__(self, journal: EngineJournal, room: int) -> None:
        super().__init__(journal, room)
        self.data_max = data_max_of(room)
        """Bytes of data that fit into a frame with whatever comes with them."""
        self.large = Large(room)
        self.everyone = self._made(EVERYTHING)
        """The caller of all whose names were checked with the parameters, or need no check."""
        self.sized = replace(self.everyone, pack=check_packed)
        """The same, of data that is known to fit into a frame: a call less."""
        self._callers: dict[int, tuple[Grant, Caller]] = {}
        """By the id of its grant, which is kept with it: a grant is not hashed for each request."""

    def caller(self, grant: Grant) -> Caller:
        """As whom an identity calls the engine."""
        if grant is EVERYTHING:
            return self.everyone
        found = self._callers.get(id(grant))
        if found is None:
            if len(self._callers) >= GRANTS:
                self._callers.clear()
            found = self._callers[id(grant)] = grant, self._made(grant)
        return found[1]

    def _made(self, grant: Grant) -> Caller:
        may_all = "*" in grant.names
        bounds = Bounds(self.data_max, None if may_all else grant.may_act_as)
        pack = _pack_of(self.data_max)
        return Caller(pack, checked_packed, entry_to, None if may_all else _check_of(grant), self.large, bounds)


def _pack_of(data_max: int) -> Callable[[bytes], bytes]:
    """What accepts packed data (S1)."""

    def pack(data: bytes) -> bytes:
        if len(data) > data_max:
            raise Oversize(
                f"{len(data)} bytes, and {data_max} can be handed out in a frame: put a reference to the data"
            )
        if data[0] == BIN8 and len(data) > 1 and len(data) == data[1] + 2:
            return data  # the usual case of check_packed, without a call
        return check_packed(data)

    return pack


def _check_of(grant: Grant) -> Callable[[Held], None]:
    """What refuses leases of consumers under whose names an identity may not act (S2)."""
    names: dict[str, bool] = {}

    def check(held: Held) -> None:
        consumer = held.consumer
        may = names.get(consumer)
        if may is None:
            may = grant.may_act_as(consumer)
            if len(names) < NAMES:
                names[consumer] = may
        if not may:
            raise AccessDenied(
                f"{shown(grant.identity)} may not act under the name {shown(consumer)}, whose lease this is"
            )

    return check


def data_max_of(room: int) -> int:
    """Bytes of data that can be handed out in a frame with so much room, whatever comes with them."""
    return room - min(BESIDES_BYTES, room // 2)


def room_of(store: EngineStore) -> int:
    """Bytes that a reply or a push may hold."""
    return store.frame_bytes_max - HEAD_BYTES


def known(store: EngineStore, name: str) -> Served | None:
    """The journal of this name, if it is open: looked up in memory, without a lock."""
    journal = store.opened.get(name)
    if journal is None:
        return None
    served: Served | None = journal.served
    if served is None:
        served = journal.served = Served(journal, room_of(store))
    return served


def served_of(store: EngineStore, name: str, grant: Grant = EVERYTHING) -> Served:
    """The journal of this name; opened, which may take long, when it has not been used yet. It is never declared here."""
    served = known(store, name)
    if served is None and name == MERGED and store.has_merged():
        return cast(Served, ServedLog(store.merged({}), room_of(store)))
    if served is None:
        names = store.journals()
        if name not in names:
            seen = sorted(filter(grant.may_see, names))
            listed = ", ".join(seen[:20]) + (", …" if len(seen) > 20 else "")
            raise NotFound(f"there is no journal {shown(name)}: there are {listed or 'none'}; DECLARE makes one")
        store.journal(name, {})
        served = known(store, name)
        if served is None:
            raise NotFound(f"the journal {shown(name)} was dropped in this moment")
    return served
