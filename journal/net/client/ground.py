"""
The backend of roles over a connection: the daemon's notices that something is due, its time by the last round trips, and requests about
leases. See journal.api.backend.

G1  A notice between two sleeps is never missed: a sleep returns at once when there was news since the last one.
G2  Settings and schema are requested once, when the role begins.
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from journal.core.buckets import Range
from journal.core.clock_drift import Time
from journal.core.requests.consume import DoneRequest, LeaseRequest
from journal.core.requests.read import SettingsRequest
from journal.core.schema.schema import Schema
from journal.core.settings import Settings, from_map
from journal.errors import ConnectionLost, JournalError, LeaseLost, TimedOut
from journal.net.client.client import Client
from journal.net.client.connection.due_notices import Ear, ListeningPlace


class ClientGround:
    """Of one role."""

    def __init__(self, client: Client, ear: Ear) -> None:
        self.time = ear.time
        self.key = ear.key_of(client.name)
        self._client = client
        self._ear = ear
        self._settings: Settings | None = None
        self._poll = ear.poll()
        self._place: ListeningPlace | None = None
        self._seen = 0
        self._leaving = ExitStack()
        weakref.finalize(self, self._leaving.close).atexit = False

    @property
    def settings(self) -> Settings:
        """As they were when the role began (G2)."""
        if self._settings is None:
            self._settings = from_map(self._client.call(SettingsRequest()))
        return self._settings

    @property
    def schema(self) -> Schema | None:
        """That of the settings: the daemon checks what is published, too."""
        return self.settings.schema

    @property
    def is_gone(self) -> bool:
        """Whether the connection was closed by this program."""
        return self._client.link.is_closed

    def sleep(self, buckets: Range | None, is_awake: Callable[[], bool]) -> None:
        """Until the daemon says that something is due, or it is time to ask without that."""
        place = self._place
        if place is None:
            place = self._leaving.enter_context(self._ear.place(self._client.name))
            self._seen = place.news
            self._place = place
        if not is_awake():
            now = self.time.now()
            if place.wait(self._seen, (self._poll.next_at(now, random.random()) - now) / 1000, None):
                self._poll.lost()
        self._seen = place.news  # notices from now on are news (G1)

    def rouse(self, note: Callable[[], None]) -> None:
        """Wakes all workers of this journal on this connection."""
        note()
        if self._place is not None:
            self._place.tell()

    def deadline_of(self, token: int) -> int | None:
        """As the daemon has it."""
        try:
            deadline = int(self._client.call(LeaseRequest(token=token))[0].deadline)
        except LeaseLost:
            return None
        if deadline <= self.time.now():
            self._ear.heart.beat()  # its clock was set: compare the two anew, or it would seem over again
        return deadline

    def is_finished(self, token: int) -> bool:
        """A lease that is over and was finished is finished once more without any effect; one that was lost is refused."""
        try:
            self._client.call(DoneRequest(token=token))
        except LeaseLost:
            return False
        return True

    def recover(self, error: JournalError) -> None:
        """Wait for the daemon, as long as the backoff says."""
        if not isinstance(error, (ConnectionLost, TimedOut)):
            raise error
        self._ear.heart.beat()

    def measure_drift(self, peer: str, t0: Time, t1: Time, t2: Time, t3: Time) -> bool:
        """The clocks are compared with each heartbeat, whatever the program measures; whether ours is off."""
        self._ear.heart.beat()
        return self._ear.heart.clocks.is_off

    def clock_of(self, peer: str) -> dict[str, Any] | None:
        """How far our clock is from the daemon's."""
        return self._ear.heart.clocks.statistics()

    def close(self, peer: str) -> None:
        """Leave the place where workers of this journal sleep."""
        self._leaving.close()
