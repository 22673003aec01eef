"""The daemon's clock and ours: what PINGs tell of them. No clock is read here; for both kinds of clients."""

from __future__ import annotations

import threading
from typing import Any

from journal.core.clock_drift import Drift, Sample, round_trip
from journal.core.requests.control import PingRequest
from journal.errors import Invalid
from journal.net.client.connection.call import Call, call_of
from journal.shield import shielded


@shielded
class Clocks:
    """
    How far the daemon's clock is from ours, and how it runs by our steady clock, which is never set. Times are in milliseconds. Safe to
    use from many threads.
    """

    def __init__(self, wall: float, steady: float) -> None:
        """What our clocks show: until a PING is answered, the daemon's is taken for the same."""
        self._lock = threading.Lock()
        self._drift = Drift()
        self._last: Sample | None = None
        self._steady = Drift()
        self._offset = wall - steady
        """The daemon's clock minus our steady one."""

    def ping(self, now: int) -> Call:
        """The next PING, which carries the result of the last one."""
        last = self._last
        if last is None:
            return call_of(PingRequest(sent=now))
        return call_of(PingRequest(sent=now, offset=last.offset, delay=last.delay))

    def pong(self, sent: float, answer: tuple[int, int], now: float, steady_sent: float, steady: float) -> None:
        """A PING was answered: when the daemon got it and answered, by its own clock; and our two, before and after."""
        try:
            by_steady = round_trip(steady_sent, *answer, steady)
            with self._lock:
                self._steady.add(by_steady)
                best = self._steady.best
                self._offset = by_steady.offset if best is None else best.offset
            sample = round_trip(sent, *answer, now)
        except Invalid:
            return  # a clock was set meanwhile: the next one will tell
        with self._lock:
            self._last = sample
            self._drift.add(sample)

    def theirs(self, steady: float) -> int:
        """What the daemon's clock shows when our steady one shows this."""
        return int(steady + self._offset)

    def ours(self, theirs: int) -> int:
        """What our steady clock shows when the daemon's shows this."""
        return int(theirs - self._offset)

    @property
    def is_off(self) -> bool:
        """Whether it is certain that the two differ by more than the limit."""
        with self._lock:
            return self._drift.is_flagged

    def statistics(self) -> dict[str, Any]:
        """What is known, in milliseconds: positive when the daemon's clock is ahead."""
        with self._lock:
            return self._drift.statistics()
