"""
A worker's loop over a connection: claim, hand over, sleep until the daemon says that something is due.

W1  Work comes from claims alone; datagrams and dates only say when to claim (journal.net.client.connection.due_notices E1).
W2  Without a datagram and without a known date it claims all the same, rarely (journal.net.wire.due_notices_client V3).
W3  A claim whose outcome is unknown is made again once the daemon answers. What it may have taken comes back when its lease ends.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from threading import Event
from typing import TYPE_CHECKING

from journal.errors import ConnectionLost, StoreClosed, TimedOut
from journal.net.client.calls.call import Call
from journal.net.client.calls.claims import Claimed
from journal.net.client.connection.due_notices import Ear
from journal.net.client.connection.heartbeat import steady_ms
from journal.net.client.lease import RemoteLease
from journal.net.wire.due_notices_client import Poll

if TYPE_CHECKING:
    from journal.net.client.journal import RemoteJournal

GRACE_MS = 100
"""For the datagram about an entry whose date is known: a worker that receives it in time does not claim twice."""


def work(journal: RemoteJournal, ear: Ear, claim: Call[Claimed], stop: Event | None) -> Iterator[RemoteLease]:
    """Leases as they fall due."""
    nap = _Nap(ear)
    try:
        with ear.place(journal.name) as place:
            was_told = True
            while stop is None or not stop.is_set():
                seen = place.news
                try:
                    found = journal._ask(claim)
                except (ConnectionLost, TimedOut):
                    ear.heart.beat()  # W3; when there is no daemon this fails too
                    continue
                if not found.leases:
                    was_told = place.wait(seen, nap.seconds(found.next_due), stop)
                    continue
                if not was_told:
                    nap.missed()
                was_told = True
                yield RemoteLease(journal, found.leases[0])
    except StoreClosed:
        return


class _Nap:
    """How long a worker sleeps without a notice."""

    def __init__(self, ear: Ear) -> None:
        self._clocks = ear.heart.clocks
        self._poll: Poll = ear.poll()
        self._asked_for: int | None = None
        """The date at which it has claimed already: the clocks may differ, and further claims for it would be useless."""

    def seconds(self, next_due: int | None) -> float:
        """How long to sleep after a claim that found nothing; `next_due` is from its reply."""
        now = self._clocks.theirs(steady_ms())
        known = None if next_due is None or next_due == self._asked_for else next_due + GRACE_MS
        at = self._poll.next_at(now, random.random(), known)
        if known is not None and at >= known:
            self._asked_for = next_due
        return max(1, at - now) / 1000

    def missed(self) -> None:
        """There was work that no datagram had announced (W2)."""
        self._poll.lost()
