"""
One thread for all sockets: waits until one is ready, a time has come, or another thread has called.

E1  Everything that is registered here runs on the loop's thread, one after the other; only `call` may be used from other threads.
E2  A call from another thread is never missed: it is in the queue before the loop looks, or the loop is woken.
E3  Without sockets that are ready, calls and times there is no wake-up.
E4  An error in one callback is logged and ends nothing else: one peer must not affect the others.
"""

from __future__ import annotations

import logging
import os
import select
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from socket import socket
from time import monotonic
from typing import Any

log = logging.getLogger("journal.daemon")

READ = select.POLLIN
WRITE = select.POLLOUT
ERRORS = select.POLLERR
"""From here on: an error, or the other side has hung up."""
CALLS_MAX = 1024
"""Calls that are made in one round, so that sockets get their turn."""
CANCELLED_MAX = 64


class Timer:
    """Something that happens once, at a time."""

    __slots__ = ("at", "function")

    def __init__(self, at: float, function: Callable[[], None] | None) -> None:
        self.at = at
        self.function = function

    def cancel(self) -> None:
        """Cancel the timer."""
        self.function = None


class Loop:
    """See the module."""

    def __init__(self) -> None:
        self.rounds = 0
        """How often it woke up."""
        self.crowd = 0
        """Sockets that were ready when this round began."""
        self.after_round: list[Callable[[], None]] = []
        """What is done when all that was ready has had its turn."""
        has_epoll = hasattr(select, "epoll")
        self._poll: Any = select.epoll() if has_epoll else select.poll()
        self._unit = 1 if has_epoll else 1000
        """What a second is to `poll`."""
        self._seen: list[tuple[int, int]] = []
        """What `has_more` has found: it is ready in the next round."""
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._calls: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = count()
        self._is_asleep = False
        self._is_over = False
        self._woken, self._wake = os.pipe()
        for fd in (self._woken, self._wake):
            os.set_blocking(fd, False)
        self._register(self._woken, READ, self._drain)

    # -- from any thread ----------------------------------------------------------------------------------------------

    def call(self, function: Callable[[], None]) -> None:
        """Have a function run on the loop's thread, soon (E2). Safe in a signal handler."""
        self._calls.append(function)
        if self._is_asleep:
            self.wake()

    def wake(self) -> None:
        """Wake the loop, to check its queue."""
        try:
            os.write(self._wake, b"!")
        except (BlockingIOError, OSError):
            return  # it is being woken already, or is over

    # -- on the loop's thread -----------------------------------------------------------------------------------------

    def watch(self, sock: socket, mask: int, callback: Callable[[int], None]) -> None:
        """Call back with what a socket is ready for; READ also when it has failed, so that its reader meets the error."""
        self._register(sock.fileno(), mask, callback)

    def _register(self, fd: int, mask: int, callback: Callable[[int], None]) -> None:
        self._poll.register(fd, mask)
        self._callbacks[fd] = callback

    def rewatch(self, sock: socket, mask: int) -> None:
        """Wait for something else."""
        self._poll.modify(sock.fileno(), mask)

    def forget(self, sock: socket) -> None:
        """Watch a socket no longer."""
        fd = sock.fileno()
        self._poll.unregister(fd)
        del self._callbacks[fd]

    def at(self, when: float, function: Callable[[], None]) -> Timer:
        """Do something at a time of the steady clock."""
        timer = Timer(when, function)
        heappush(self._timers, (when, next(self._numbers), timer))
        if len(self._timers) > CANCELLED_MAX and sum(t.function is None for _, _, t in self._timers) * 2 > len(
            self._timers
        ):
            self._timers = [item for item in self._timers if item[2].function is not None]
            heapify(self._timers)
        return timer

    def has_more(self) -> bool:
        """Whether some sockets are ready by now, so that the next round comes at once."""
        if not self._seen:
            self._seen = self._poll.poll(0)
        return bool(self._seen)

    def abandon_after_fork(self) -> None:
        """In a forked child: our copies of what the parent watches with."""
        self._close()

    def _close(self) -> None:
        if hasattr(self._poll, "close"):
            self._poll.close()
        os.close(self._woken)
        os.close(self._wake)

    def end(self) -> None:
        """`run` returns after this round."""
        self._is_over = True

    def run(self) -> None:
        """Until `end`."""
        try:
            while not self._is_over:
                self._round()
        finally:
            self._close()

    def _round(self) -> None:
        self._is_asleep = True
        timeout: float | None = None
        if self._calls:
            timeout = 0
        else:
            while self._timers and self._timers[0][2].function is None:
                heappop(self._timers)
            if self._timers:
                timeout = max(0.0, self._timers[0][0] - monotonic())
        if self._seen:
            ready, self._seen = self._seen, []
        else:
            ready = self._poll.poll(None if timeout is None else timeout * self._unit)
        self._is_asleep = False
        self.rounds += 1
        self.crowd = len(ready)
        callbacks = self._callbacks
        for fd, mask in ready:
            callback = callbacks.get(fd)  # one before it may have closed it
            if callback is not None:
                try:
                    callback(mask if mask < ERRORS else mask | READ)
                except Exception:
                    log.exception("connection_failed")  # E4
        if self._calls:
            self._make_calls()
        if self._timers and self._timers[0][0] <= monotonic():
            self._fire()
        for function in self.after_round:
            self._guarded(function)

    def _make_calls(self) -> None:
        for _ in range(min(len(self._calls), CALLS_MAX)):
            self._guarded(self._calls.popleft())

    def _fire(self) -> None:
        now = monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heappop(self._timers)[2]
            function, timer.function = timer.function, None
            if function is not None:
                self._guarded(function)

    def _guarded(self, function: Callable[[], None]) -> None:
        try:
            function()
        except Exception:
            log.exception("callback_failed")  # E4

    def _drain(self, mask: int) -> None:
        while len(os.read(self._woken, 4096)) == 4096:
            pass
