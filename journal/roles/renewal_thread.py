"""
The renewal thread: one for all consumers of this process (and one for those of each connection), which no handler can block.

It sleeps until the next consumer is due, calls `tick(now)` of that consumer, which returns the date of its next call, and keeps only
each consumer's next date. Callbacks of the program run on other threads.

W1  A consumer is referenced weakly: one that the program no longer holds is not looked after, and its leases expire by themselves.
W2  Its times are those of the steady clock (`running`): what it looks after are durations, whatever becomes of the wall clock. Sleeps
    are clamped, and end when a clock of a test moves.
W3  The renewal thread holds no lock while it ticks, and takes none of the engine's while it holds its own.
W4  A daemon that does not answer delays only the consumers whose leases are there.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Protocol

from journal.api.backend import Clock
from journal.core.limits import NEVER
from journal.errors import StoreFull
from journal.threads import begin

log = logging.getLogger("journal.watch")

SLEEP_MAX_S = 60.0
RETRY_MS = 1000


class RenewalTarget(Protocol):
    """A consumer as the renewal thread sees it."""

    time: Clock
    armed_at: int
    """The date under which the renewal thread has it, or an earlier one; it belongs to the renewal thread."""

    def tick(self, now: int) -> int:
        """Do what is due; return the date of the next call (NEVER: when `at` is called)."""


class _Dates:
    """The next dates of the consumers of one clock."""

    def __init__(self, end: Callable[[], None]) -> None:
        self.heap: list[tuple[int, int, weakref.ref[RenewalTarget]]] = []
        self.end = end
        """Ends the notices of a manual clock that moves."""


class RenewalThread:
    """Looks after consumers at their dates. One for a process: `renewal_thread()`."""

    def __init__(self) -> None:
        self._wake = threading.Condition(threading.Lock())
        self._dates: dict[Clock, _Dates] = {}
        self._numbers = count()
        self._thread: threading.Thread | None = None
        self._is_looking = False
        self._has_moved = False

    def at(self, target: RenewalTarget, date: int) -> None:
        """Call `tick` at a date, or earlier."""
        if date >= target.armed_at:
            return
        with self._wake:
            if date >= target.armed_at:
                return
            target.armed_at = date
            dates = self._dates.get(target.time)
            if dates is None:
                dates = self._dates[target.time] = _Dates(target.time.on_advance(self._clock_moved))
            heappush(dates.heap, (date, next(self._numbers), weakref.ref(target)))
            if self._thread is None:
                try:
                    self._thread = begin(threading.Thread(target=self._run, name="journal-consumers", daemon=True))
                except StoreFull:
                    target.armed_at = NEVER  # the next call tries again
                    raise
            self._wake.notify_all()

    def soon(self, target: RenewalTarget) -> None:
        """Call `tick` now."""
        self.at(target, 0)

    def forget(self, target: RenewalTarget | None = None) -> None:
        """Remove a consumer, and all that no longer exist (W1). The thread ends when no consumer is left."""
        with self._wake:
            for dates in self._dates.values():
                dates.heap = [item for item in dates.heap if item[2]() not in (None, target)]
                heapify(dates.heap)
            self._wake.notify_all()

    def wait_idle(self, timeout: float) -> bool:
        """Return when nothing is left to do at this time; False when that took longer."""
        with self._wake:
            return self._wake.wait_for(lambda: not (self._is_looking or self._has_moved or self._is_due()), timeout)

    def _clock_moved(self) -> None:
        with self._wake:
            self._has_moved = self._thread is not None  # it may have ended while the clock notified other callbacks
            self._wake.notify_all()

    def _is_due(self) -> bool:
        """Whether a consumer may be due; under the lock."""
        return any(dates.heap and dates.heap[0][0] <= time.running() for time, dates in self._dates.items())

    def _take(self) -> list[RenewalTarget]:
        """Take out the consumers that are due; drop stale dates."""
        found: dict[int, RenewalTarget] = {}
        for time, dates in list(self._dates.items()):
            now = time.running()
            while dates.heap and (dates.heap[0][0] <= now or dates.heap[0][2]() is None):
                target = heappop(dates.heap)[2]()
                if target is not None and target.armed_at <= now:
                    target.armed_at = NEVER
                    found[id(target)] = target
            if not dates.heap and not any(each.time is time for each in found.values()):
                dates.end()
                del self._dates[time]
        return list(found.values())

    def _sleep_s(self) -> float:
        waits = [time.until_running(dates.heap[0][0]) for time, dates in self._dates.items()]
        return min([*(wait for wait in waits if wait is not None), SLEEP_MAX_S])

    def _run(self) -> None:
        while True:
            with self._wake:
                self._is_looking = False
                while True:
                    self._has_moved = False
                    due = self._take()
                    if due:
                        break
                    self._wake.notify_all()  # wakes `wait_idle`
                    if not self._dates:
                        self._thread = None
                        return
                    self._wake.wait(self._sleep_s())
                self._is_looking = True
            while due:
                self._look_after(due.pop())  # and forgets it (W1)

    def _look_after(self, target: RenewalTarget) -> None:
        now = target.time.running()
        try:
            following = target.tick(now)
        except Exception:
            log.exception("consumer_tick_failed consumer=%r", target)
            following = now + RETRY_MS
        if following < NEVER:
            self.at(target, following)


_renewal_thread = RenewalThread()
_making = threading.Lock()
_far: weakref.WeakKeyDictionary[Clock, RenewalThread] = weakref.WeakKeyDictionary()


def renewal_thread(time: Clock | None = None) -> RenewalThread:
    """The renewal thread of this process; for consumers of a daemon, one for each connection, since it may have to wait for that (W4)."""
    if time is None or not time.is_far:
        return _renewal_thread
    with _making:
        return _far.setdefault(time, RenewalThread())


def _begin_again() -> None:
    global _renewal_thread, _making, _far
    _renewal_thread = RenewalThread()  # the thread is the parent's, and so are the consumers
    _making = threading.Lock()
    _far = weakref.WeakKeyDictionary()


os.register_at_fork(after_in_child=_begin_again)
