"""
Time as the engine sees it: milliseconds that follow the wall clock, never step and never go back.

A clock object has `wall_ns()` (what the machine calls now) and `steady_ns()` (counts through, whatever is done to the
wall clock; on Linux also through suspend). Engine time runs with the steady clock. When the wall clock differs:

T1  Engine time never goes back, also not over a reopen (it begins no earlier than the last record's timestamp).
T2  A difference of up to FOLLOW_MS is followed at once (forward) or waited out (backward): ordinary drift.
T3  A larger one is a step: it is logged, counted, and approached by running at most 1/SLEW faster or slower. So a
    step fires no leases, expires no entries and stalls no timer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol, runtime_checkable

from journal.errors import Invalid

log = logging.getLogger("journal.clock")

FOLLOW_MS = 100
SLEW = 8
RECHECK_NS = 20_000_000
"""The wall clock is read at most this often: a clock_gettime costs 0.1-0.3 µs of a put's 15."""


@runtime_checkable
class Clock(Protocol):
    """A source of time."""

    def wall_ns(self) -> int:
        """Nanoseconds since the epoch, as the machine sees them; may step."""

    def steady_ns(self) -> int:
        """Nanoseconds since some moment; never steps."""


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self.wall_ns: Callable[[], int] = time.time_ns
        # Counts through suspend where the system can.
        self.steady_ns: Callable[[], int] = partial(
            time.clock_gettime_ns, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        )


class EngineTime:
    """Engine time over a clock; see the module's invariants. Shared by all journals of a store."""

    is_far = False

    def __init__(self, clock: Clock, not_before_ms: int = 0) -> None:
        self.clock = clock
        self.steps = 0
        self._steady = clock.steady_ns
        start = max(clock.wall_ns(), not_before_ms * 1_000_000)
        self._offset = start - self._steady()
        self._checked = self._steady()
        self._next_check = self._checked
        self._last = 0
        self._was_off = False
        self._following = threading.Lock()

    def now(self) -> int:
        """Engine time in ms."""
        steady = self._steady()
        if steady >= self._next_check and self._following.acquire(blocking=False):
            try:
                self._follow(steady)
            finally:
                self._following.release()
        now = (steady + self._offset) // 1_000_000
        if now < self._last:
            return self._last  # T1
        self._last = now
        return now

    def not_before(self, ms: int) -> None:
        """Engine time is at least this from now on (T1 over a reopen)."""
        behind = ms * 1_000_000 - (self._steady() + self._offset)
        if behind > 0:
            self._offset += behind

    def _follow(self, steady: int) -> None:
        elapsed = max(0, steady - self._checked)
        self._checked = steady
        self._next_check = steady + RECHECK_NS
        gap = self.clock.wall_ns() - (steady + self._offset)
        if abs(gap) <= FOLLOW_MS * 1_000_000:
            self._offset += gap  # T2; now() holds still rather than going back
            self._was_off = False
            return
        if not self._was_off:
            self._was_off = True
            self.steps += 1
            log.warning("clock_step by_ms=%d steps=%d", gap // 1_000_000, self.steps)
        most = elapsed // SLEW
        self._offset += max(-most, min(most, gap))  # T3

    def until(self, ms: int) -> float | None:
        """Seconds of real waiting until engine time reaches `ms`; None when only the clock's owner moves it."""
        if hasattr(self.clock, "on_advance"):
            return None
        self.now()  # follows the wall clock
        return max(0.0, (ms * 1_000_000 - self._steady() - self._offset) / 1e9)

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Be told when a manual clock moves; returns a function that ends it."""
        register = getattr(self.clock, "on_advance", None)
        if register is None:
            return lambda: None
        ended: Callable[[], None] = register(callback)
        return ended


class _NowOnly:
    """A clock that only knows now(): forward is time passing, a step back is a step."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._last = now()
        self._steady = 0

    def wall_ns(self) -> int:
        return self._now() * 1_000_000

    def steady_ns(self) -> int:
        now = self._now()
        if now > self._last:
            self._steady += now - self._last
        self._last = now
        return self._steady * 1_000_000


def as_clock(clock: object | None) -> Clock:
    """The clock that a caller passed: none, one of ours, or any object with now() in ms."""
    if clock is None:
        return SystemClock()
    if isinstance(clock, Clock):
        return clock
    now = getattr(clock, "now", None)
    if callable(now):
        return _NowOnly(now)
    raise Invalid(f"clock is {clock!r}: it must have wall_ns() and steady_ns(), or now() in milliseconds")
