"""
A worker over a connection: it claims, and sleeps until the daemon says that something is due (journal.api.worker has the loop).

W1  Work comes from claims alone; datagrams and dates only say when to claim (journal.net.client.connection.due_notices E1).
W2  Without a datagram and without a known date it claims all the same, rarely (journal.net.wire.due_notices V3).
W3  A claim whose outcome is unknown is made again once the daemon answers. What it may have taken comes back when its lease ends.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from threading import Event
from types import TracebackType
from typing import Self

from journal.api.backend import Lent
from journal.errors import ConnectionLost, TimedOut
from journal.net.client.client import Client
from journal.net.client.connection.call import Call
from journal.net.client.connection.due_notices import ListeningPlace
from journal.net.client.connection.heartbeat import steady_ms
from journal.net.wire.codecs import claimed

GRACE_MS = 100
"""For the datagram about an entry whose date is known: a worker that receives it in time does not claim twice."""


class ClientTurns:
    """One worker's claims and sleeps (journal.api.backend.Turns); a context manager while it works."""

    def __init__(self, client: Client, claim: Call) -> None:
        self._client = client
        self._claim = claim
        self._poll = client.ear.poll()
        self._leaving = ExitStack()
        self._place: ListeningPlace | None = None
        self._seen = 0
        self._was_told = True
        self._is_unknown = False
        """Whether the last claim was not answered (W3)."""
        self._next_due: int | None = None
        """What the daemon said of it when the last claim found nothing."""
        self._asked_for: int | None = None
        """The date at which it has claimed already: the clocks may differ, and further claims for it would be useless."""

    def __enter__(self) -> Self:
        self._place = self._leaving.enter_context(self._client.ear.place(self._claim.journal))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.close()

    def take(self) -> Lent | None:
        """The next entry that is due."""
        assert self._place is not None
        self._seen = self._place.news
        try:
            found, self._next_due = claimed(self._client.ask(self._claim))
        except (ConnectionLost, TimedOut):
            self._client.heart.beat()  # W3; when there is no daemon this fails too
            self._is_unknown = True
            return None
        if found is not None:
            if not self._was_told:
                self._poll.lost()  # there was work that no datagram had announced (W2)
            self._was_told = True
        return found

    def sleep(self, stop: Event | None) -> None:
        """Wait for a notice, or until it is time to claim without one."""
        assert self._place is not None
        if self._is_unknown:
            self._is_unknown = False
            return
        now = self._client.heart.clocks.theirs(steady_ms())
        next_due = self._next_due
        known = None if next_due is None or next_due == self._asked_for else next_due + GRACE_MS
        at = self._poll.next_at(now, random.random(), known)
        if known is not None and at >= known:
            self._asked_for = next_due
        self._was_told = self._place.wait(self._seen, max(1, at - now) / 1000, stop)
