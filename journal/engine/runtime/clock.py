"""
Time as the engine sees it: dates follow the wall clock, durations follow the steady clock.

A clock object has `wall_ns()` (what the machine calls now) and `steady_ns()` (counts through, whatever is done to the
wall clock; on Linux also through suspend). The two differ by `offset`, which changes when the wall clock is set.

T1  `now()` is a date: the wall clock, to the millisecond, within RECHECK_NS of a step. It goes back when the wall clock does.
T2  `offset` is whole milliseconds. Code that measures a duration on dates compares the offset with the one that it saw
    before, and moves its dates by the difference (clock_steps.follow): so a duration is as long as the steady clock says.
T3  A difference of up to FOLLOW_MS is ordinary drift. A larger one is a step: it is logged and counted, and callbacks are called.
T4  The wall clock shows 0 to CLOCK_MAX, or every call that needs the time is refused: dates must have room behind it.
T5  A sleep to a date ends within STEP_S of a step: a watch on the machine's clock reports it (clock_watch), or sleeps are short.

What is a date and what a duration:

    process and expiration dates, insertion, start, burial, flags, rotation by a period     dates: as the wall clock is
    leases, postpone_max, log_age_max                durations between dates: moved by the steps in between (clock_steps)
    sync_interval, heartbeats, connection timeouts, retries, compaction, snapshots          the steady clock alone
    timestamps in the log                            the wall clock, but never less than the one before
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol, runtime_checkable

from journal.core.limits import DATE_MAX, DURATION_MAX
from journal.engine.runtime import clock_watch
from journal.errors import Invalid

log = logging.getLogger("journal.clock")

FOLLOW_MS = 100
RECHECK_NS = 20_000_000
"""The wall clock is read at most this often: a clock_gettime costs 0.1-0.3 µs of a put's 15."""
STEP_S = 1.0
CLOCK_MAX = DATE_MAX - DURATION_MAX
_MS = 1_000_000
_WALL_MAX = CLOCK_MAX * _MS
_HELD_UP_NS = 500_000
"""Two readings that are further apart say nothing of each other: something came in between."""


@runtime_checkable
class ClockSource(Protocol):
    """A source of time."""

    def wall_ns(self) -> int: ...
    def steady_ns(self) -> int: ...


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

    def __init__(self, clock: ClockSource) -> None:
        self.clock = clock
        self.steps = 0
        self.step_ms = 0
        """How far the last step went; negative: back."""
        self.step_date: int | None = None
        """When it was noticed, by the clock as it was then."""
        self.is_manual = hasattr(clock, "on_advance")
        self.read_steady = clock.steady_ns
        self._recheck = RECHECK_NS if isinstance(clock, SystemClock) else 0
        self._is_watched = False
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._end: Callable[[], None] = lambda: None
        self._stepping = threading.Lock()
        steady = self.read_steady()
        self.look_at = steady + self._recheck
        self.offset = round((_checked(clock.wall_ns()) - steady) / _MS) * _MS
        """The wall clock minus the steady clock, in ns (T2)."""

    def now(self) -> int:
        """The date, in ms."""
        return (self.steady() + self.offset) // _MS

    def steady(self) -> int:
        """The steady clock in ns, with `offset` as of now: a date is (steady + offset) // 10**6 with one reading of each."""
        steady = self.read_steady()
        if steady >= self.look_at:
            self.look_at_wall(steady)
        return steady

    def look_at_wall(self, steady: int) -> None:
        """Follow the wall clock; callers that read the steady clock themselves call this when it shows `look_at` or more."""
        self.look_at = steady + self._recheck
        wall = self.clock.wall_ns()
        if not 0 <= wall <= _WALL_MAX:
            self.look_at = steady
            _checked(wall)  # refuses
        if -_MS < wall - steady - self.offset < _MS:
            return
        with self._stepping:
            # Again, and both at one moment: another thread may have seen to it, or this one was held up between the two.
            steady = self.read_steady()
            wall = self.clock.wall_ns()
            if self.read_steady() - steady > _HELD_UP_NS:
                self.look_at = steady
                return
            by = round((_checked(wall) - steady - self.offset) / _MS)
            if not by:
                return
            self.offset += by * _MS
            if abs(by) > FOLLOW_MS:
                self.steps += 1
                self.step_ms, self.step_date = by, wall // _MS
        if abs(by) > FOLLOW_MS:
            log.warning("clock_step by_ms=%d steps=%d", by, self.steps)
            if not self.is_manual:  # its owner calls `tell`
                self.tell()

    def tell(self) -> None:
        """The clock was set, or may have been: call all callbacks, so that threads that sleep to a date look again."""
        for callback in list(self._callbacks.values()):
            callback()

    def look(self) -> None:
        """Follow the wall clock at once, and call the callbacks: for the watch (T5)."""
        self.look_at = 0
        try:
            self.now()
        except Invalid as e:
            log.error("clock_unusable error=%s", e)
        self.tell()

    def until(self, ms: int) -> float | None:
        """
        Seconds of real waiting until that date, or until it is time to look again (T5); None when only the clock's owner moves it.
        """
        if self.is_manual:
            return None
        steady = self.steady()
        seconds = max(0.0, (ms * _MS - steady - self.offset) / 1e9)
        return seconds if self._is_watched and clock_watch.works() else min(seconds, STEP_S)

    def running(self) -> int:
        """The steady clock in ms: for durations."""
        return self.read_steady() // _MS

    def running_at(self, date: int) -> int:
        """What `running` shows when a date comes, if the wall clock is not set until then."""
        self.steady()
        return date - self.offset // _MS

    def until_running(self, ms: int) -> float | None:
        """Seconds of real waiting until `running` shows that; None when only the clock's owner moves it."""
        return None if self.is_manual else max(0.0, (ms * _MS - self.read_steady()) / 1e9)

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """
        Call `callback` when the clock was set, or when a manual one moves; returns a function that ends it.

        The callback comes on any thread, which may hold any lock of the engine: it takes none of them, and is done in a moment.
        The one of a manual clock comes on the thread that moves it, which holds none.
        """
        register = getattr(self.clock, "on_advance", None)
        if register is not None:
            ended: Callable[[], None] = register(callback)
            return ended
        token = object()
        self._callbacks[token] = callback

        def end() -> None:
            self._callbacks.pop(token, None)

        return end

    def open(self, moved: Callable[[], None]) -> None:
        """The store is open: call `moved` when the clock was set, and watch the machine's clock."""
        self._end = self.on_advance(moved)
        if isinstance(self.clock, SystemClock):
            self._is_watched = clock_watch.add(self.look)

    def close(self) -> None:
        """The store is closed."""
        self._end()
        if self._is_watched:
            self._is_watched = False
            clock_watch.remove(self.look)

    def statistics(self) -> dict[str, int | bool | None]:
        """How often the wall clock was set, how far the last time, and when that was noticed."""
        return {
            "steps": self.steps,
            "step_ms": self.step_ms,
            "step_date": self.step_date,
            "is_watched": self._is_watched,
        }


def _checked(wall_ns: int) -> int:
    """What the wall clock shows, if the engine can work with it (T4)."""
    if not 0 <= wall_ns <= _WALL_MAX:
        raise Invalid(
            f"the clock shows {wall_ns // _MS} ms since the epoch: it must be from 0 to {CLOCK_MAX}; set the clock, then try again"
        )
    return wall_ns


class _NowOnly:
    """A clock that only has now(): forward is time passing, a step back is a step."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._last = now()
        self._steady = 0

    def wall_ns(self) -> int:
        return self._now() * _MS

    def steady_ns(self) -> int:
        now = self._now()
        if 0 <= now <= CLOCK_MAX:  # what is no date (T4) is no time either
            self._steady += max(0, now - self._last)
            self._last = now
        return self._steady * _MS


def as_clock(clock: object | None) -> ClockSource:
    """The clock that a caller passed: none, one of ours, or any object with now() in ms."""
    if clock is None:
        return SystemClock()
    if isinstance(clock, ClockSource):
        return clock
    now = getattr(clock, "now", None)
    if callable(now):
        return _NowOnly(now)
    raise Invalid(f"clock is {clock!r}: it must have wall_ns() and steady_ns(), or now() in milliseconds")
