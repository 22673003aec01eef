"""
What makes a pipeline look at its dates when there are no calls: the alarm for its timers, and a clock that was set.

`timer_at` is the date of the next timer. Every call looks at it first; the keeper does when there are no calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.core.limits import NEVER
from journal.engine.runtime.timed_steps import PAUSE_S
from journal.errors import Invalid, StorageError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from journal.engine.generations.generations import Generations
    from journal.engine.runtime.background import Alarm
    from journal.engine.runtime.clock import EngineTime
    from journal.engine.runtime.wakeups import Due

TIMER_MAX_S = 60.0
RETRY_S = 1.0


class Wake:
    """The part of a pipeline that wakes up by itself."""

    lock: threading.Lock
    due: Due
    time: EngineTime
    trouble: StorageError | None
    generations: Generations
    enter: Callable[[], int]
    timer_at: int
    offset: int
    """The offset of the clock by which the dates of leases are (clock_steps D2)."""
    offset_seen: int
    """The last one that was looked at."""
    _alarm: Alarm

    def timer_soon(self, date: int) -> None:
        """A timer is due at this date, or earlier."""
        if date < self.timer_at:
            self.timer_at = date
            self.arm()

    def set_timer(self, date: int) -> None:
        """The next timer is due at this date."""
        self.timer_at = date
        self.arm()

    def arm(self) -> None:
        """Have the keeper tick at `timer_at` when there is no call before."""
        if self.timer_at < self._alarm.at:
            seconds = self.time.until(self.timer_at)
            if seconds is not None:
                self._alarm.set(self.timer_at, min(max(seconds, PAUSE_S), TIMER_MAX_S))

    def looks_again(self) -> None:
        """The clock was set: timers, and workers that sleep to a date, look at the dates anew. Under the lock."""
        self.generations.schedule()
        self.timer_at, self._alarm.at = 0, NEVER
        self.due.notify_all()

    def _tick_later(self) -> None:
        with self.lock:
            if self.trouble is None:
                try:
                    self.enter()
                except Invalid:  # a clock that cannot be used (clock T4): it may be set in a moment
                    self._alarm.set(self.timer_at, RETRY_S)
                    raise
                self.arm()
            self.due.notify_all()
