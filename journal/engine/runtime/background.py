"""
The keeper: one thread of a store that does what must happen on one thread, or at a time, or while there are no calls.

LMDB binds a write transaction to the thread that began it, so all begins, commits and closes happen here. Timers,
interval syncs and the log's preallocation run here too. It sleeps until the next thing is due, and for ever when
nothing is. Calls come first, but not twice in a row while timed work is due: however many callers there are, its turn
comes.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from time import monotonic
from typing import Any, TypeVar

from journal.core.limits import NEVER
from journal.errors import StoreClosed
from journal.threads import begin

log = logging.getLogger("journal.keeper")
T = TypeVar("T")
SLEEP_MAX_S = 60.0
"""Sleeps are clamped: whatever the clocks do, the keeper looks again."""
CANCELLED_MAX = 64


class _Call:
    __slots__ = ("done", "error", "function", "result")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.done = threading.Lock()
        self.done.acquire()
        self.result: Any = None
        self.error: BaseException | None = None


class Task:
    """Something that the keeper does once, at a time."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[], None]) -> None:
        self.function: Callable[[], None] | None = function
        """None: it was done, or is not wanted any more."""


class Keeper:
    """Runs calls and timed work on one thread."""

    def __init__(self, name: str) -> None:
        self._wake = threading.Condition()
        self._calls: deque[_Call] = deque()
        self._tasks: list[tuple[float, int, Task]] = []
        self._cancelled = 0
        """Of these, at most; they go when they are the most of them: their time may be a year ahead."""
        self._numbers = count()
        self._is_closed = False
        self._thread = begin(threading.Thread(target=self._run, name=f"journal-keeper-{name}", daemon=True))

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the thread and give its result or its error."""
        if threading.current_thread() is self._thread:
            return function()
        call = _Call(function)
        with self._wake:
            if self._is_closed:
                raise StoreClosed("the store is closed")
            self._calls.append(call)
            self._wake.notify()
        call.done.acquire()
        if call.error is not None:
            raise call.error
        result: T = call.result
        return result

    def after(self, seconds: float, function: Callable[[], None]) -> Task:
        """Run a function on the thread after a time; 0: as soon as possible."""
        when, task = monotonic() + seconds, Task(function)
        with self._wake:
            heappush(self._tasks, (when, next(self._numbers), task))
            if self._tasks[0][0] == when:
                self._wake.notify()
        return task

    def cancel(self, task: Task) -> None:
        """It is not wanted any more; one that is under way ends."""
        with self._wake:
            task.function = None
            self._cancelled += 1
            if self._cancelled > CANCELLED_MAX and 2 * self._cancelled > len(self._tasks):
                self._tasks = [each for each in self._tasks if each[2].function is not None]
                heapify(self._tasks)
                self._cancelled = 0

    def close(self) -> None:
        """End the thread; timed work that is not due yet is dropped."""
        with self._wake:
            self._is_closed = True
            self._wake.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        call: _Call | None = None
        while True:
            with self._wake:
                while True:
                    while self._tasks and self._tasks[0][2].function is None:
                        heappop(self._tasks)
                    wait = self._tasks[0][0] - monotonic() if self._tasks else SLEEP_MAX_S
                    if self._calls or self._is_closed or wait <= 0:
                        break
                    self._wake.wait(min(wait, SLEEP_MAX_S) if self._tasks else None)
                task = None
                if wait <= 0 and (call is not None or not self._calls) and not self._is_closed:
                    call, task = None, heappop(self._tasks)[2].function
                elif self._calls:
                    call = self._calls.popleft()
                else:
                    return
            if call is not None:
                try:
                    call.result = call.function()
                except BaseException as e:  # noqa: BLE001 - it belongs to the caller, which raises it
                    call.error = e
                call.done.release()
            elif task is not None:
                try:
                    task()
                except Exception:
                    log.exception("keeper_task_failed")


class Alarm:
    """
    A function that the keeper calls at one date. A new date takes the place of the one before, whose task is cancelled. Were it to call
    all the same, and the function to set the alarm anew, there would be more of them with each earlier date, for ever.

    Set by one thread at a time, which need not be the keeper's.
    """

    __slots__ = ("_function", "_keeper", "_number", "_task", "at")

    def __init__(self, keeper: Keeper, function: Callable[[], None]) -> None:
        self.at = NEVER
        """The date that it is set to."""
        self._keeper = keeper
        self._function = function
        self._number = 0
        self._task: Task | None = None

    def set(self, at: int, seconds: float) -> None:
        """Have the function called in so many seconds, and not before."""
        if self._task is not None:
            self._keeper.cancel(self._task)
        self._number += 1
        self.at = at
        self._task = self._keeper.after(seconds, partial(self._ring, self._number))

    def _ring(self, number: int) -> None:
        if number == self._number:  # or it was set anew in this moment
            self._task = None
            self.at = NEVER
            self._function()
