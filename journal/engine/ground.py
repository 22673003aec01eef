"""What roles stand on in the process that has the store: the engine's timer, and a look at its leases. See journal.api.backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from journal.core.buckets import Range
from journal.core.clock_drift import Time
from journal.core.schema.schema import Schema
from journal.core.settings import Settings
from journal.engine.arguments import part_of
from journal.engine.pipeline import Pipeline
from journal.engine.runtime.clock_drift import Peers
from journal.engine.work.worker import sleep
from journal.errors import JournalError


class EngineGround:
    """Of one role."""

    def __init__(self, p: Pipeline, peers: Peers, measure: Callable[[str, Time, Time, Time, Time], bool]) -> None:
        self.key = p
        self.time = p.time
        self._p = p
        self._peers = peers
        self.measure_drift = measure

    @property
    def settings(self) -> Settings:
        """How the journal behaves."""
        return self._p.settings

    @property
    def schema(self) -> Schema | None:
        """That of the active generation."""
        return self._p.schema

    @property
    def is_gone(self) -> bool:
        """Whether the store is closed, or failed."""
        return self._p.trouble is not None

    def sleep(self, buckets: Range | None, is_awake: Callable[[], bool]) -> None:
        """On the engine's timer."""
        sleep(self._p, part_of(buckets, self._p.settings), is_awake)

    def rouse(self, note: Callable[[], None]) -> None:
        """Under the lock under which `is_awake` is asked."""
        p = self._p
        with p.lock:
            note()
            p.wake_workers()

    def deadline_of(self, token: int) -> int | None:
        """Also when its timer could not write its end down yet."""
        p = self._p
        with p.lock:
            now = p.enter()
            held = p.state.leases.by_token.get(token)
            return None if held is None or held.deadline <= now else held.deadline

    def is_finished(self, token: int) -> bool:
        """Whether the token was finished, as far back as the engine keeps tokens."""
        p = self._p
        with p.lock:
            return token in p.state.finished.tokens

    def recover(self, error: JournalError) -> None:
        """Raises the error: in this process there is nothing to reconnect to."""
        raise error

    def clock_of(self, peer: str) -> dict[str, Any] | None:
        """What the peer has reported."""
        return self._peers.of(peer)

    def close(self, peer: str) -> None:
        """Remove the peer's clock."""
        self._peers.forget(peer)
