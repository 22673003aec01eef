"""The daemon's clock and ours: what PINGs tell of them. No clock is read here; for both kinds of clients."""

from __future__ import annotations

from typing import Any

from journal.client import keeping
from journal.client.call import Call
from journal.core.drift import Drift, Sample, round_trip
from journal.errors import Invalid


class Clocks:
    """How far the daemon's clock is from ours. Times are milliseconds since the epoch."""

    def __init__(self) -> None:
        self._drift = Drift()
        self._last: Sample | None = None

    def ping(self, now: int) -> Call[tuple[int, int]]:
        """The next PING, which tells what the last one has shown."""
        if self._last is None:
            return keeping.ping(sent=now)
        return keeping.ping(sent=now, offset=self._last.offset, delay=self._last.delay)

    def pong(self, sent: float, answer: tuple[int, int], now: float) -> None:
        """A PING was answered: when the daemon got it and answered, by its own clock."""
        try:
            self._last = round_trip(sent, *answer, now)
        except Invalid:
            return  # our clock was set meanwhile: the next one will tell
        self._drift.add(self._last)

    def theirs(self, ours: float) -> int:
        """What the daemon's clock shows when ours shows this."""
        best = self._drift.best
        return int(ours if best is None else ours + best.offset)

    def statistics(self) -> dict[str, Any]:
        """What is known, in milliseconds: positive when the daemon's clock is ahead."""
        return self._drift.statistics()
