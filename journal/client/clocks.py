"""The daemon's clock and ours: what PINGs tell of them. No clock is read here; for both kinds of clients."""

from __future__ import annotations

import threading
from typing import Any

from journal.client import keeping
from journal.client.call import Call
from journal.core.drift import Drift, Sample, round_trip
from journal.errors import Invalid
from journal.shield import shielded


@shielded
class Clocks:
    """How far the daemon's clock is from ours. Times are milliseconds since the epoch. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drift = Drift()
        self._last: Sample | None = None
        self._offset = 0.0

    def ping(self, now: int) -> Call[tuple[int, int]]:
        """The next PING, which tells what the last one has shown."""
        last = self._last
        if last is None:
            return keeping.ping(sent=now)
        return keeping.ping(sent=now, offset=last.offset, delay=last.delay)

    def pong(self, sent: float, answer: tuple[int, int], now: float) -> None:
        """A PING was answered: when the daemon got it and answered, by its own clock."""
        try:
            sample = round_trip(sent, *answer, now)
        except Invalid:
            return  # our clock was set meanwhile: the next one will tell
        with self._lock:
            self._last = sample
            self._drift.add(sample)
            best = self._drift.best
            self._offset = 0.0 if best is None else best.offset

    def theirs(self, ours: float) -> int:
        """What the daemon's clock shows when ours shows this."""
        return int(ours + self._offset)

    @property
    def is_off(self) -> bool:
        """Whether it is certain that the two differ by more than the limit."""
        with self._lock:
            return self._drift.is_flagged

    def statistics(self) -> dict[str, Any]:
        """What is known, in milliseconds: positive when the daemon's clock is ahead."""
        with self._lock:
            return self._drift.statistics()
