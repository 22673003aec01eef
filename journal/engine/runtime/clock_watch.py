"""
The watch on the machine's wall clock: one thread of the process, which the system wakes when the clock is set.

On Linux a timer on CLOCK_REALTIME with CANCEL_ON_SET does it: it never rings, and its read fails with ECANCELED when the clock
is set, and after a suspend. So nothing wakes up while nothing happens.

K1  Without such a timer, or without a thread for it, `add` returns False, and the caller looks at the clock more often (clock T5).
K2  The thread runs while there are callbacks. A forked child has neither the thread nor the callbacks.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from journal.errors import StoreFull
from journal.threads import begin

log = logging.getLogger("journal.clock")

_ABSTIME, _CANCEL_ON_SET = 1, 2
_NONBLOCK, _CLOEXEC = 0o4000, 0o2000000
_FAR = 1 << 40
"""Seconds: the timer does not ring."""


class _Spec(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("interval_s", "interval_ns", "value_s", "value_ns")]


def timer() -> int:
    """A descriptor that can be read when the wall clock was set; OSError where there is none."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        create, settime = libc.timerfd_create, libc.timerfd_settime
    except AttributeError as e:
        raise OSError(errno.ENOSYS, "no timerfd") from e
    fd: int = create(time.CLOCK_REALTIME, _NONBLOCK | _CLOEXEC)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create")
    spec = _Spec(0, 0, _FAR, 0)
    if settime(fd, _ABSTIME | _CANCEL_ON_SET, ctypes.byref(spec), None) < 0:
        error = ctypes.get_errno()
        os.close(fd)
        raise OSError(error, "timerfd_settime")
    return fd


def was_set(fd: int) -> bool:
    """Whether the clock was set since the last call."""
    try:
        os.read(fd, 8)
    except BlockingIOError:
        return False
    except OSError as e:
        if e.errno == errno.ECANCELED:
            return True
        raise
    return True  # the timer rang: the clock is beyond _FAR


class _Watch:
    """The thread and what it waits for. `lock` is not held during callbacks."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.told: list[Callable[[], None]] = []
        self.is_failed = False
        self._stop: int | None = None
        """Written to, it ends the thread."""

    def add(self, callback: Callable[[], None]) -> bool:
        """Add a callback; whether it will be called."""
        with self.lock:
            if self.is_failed or (self._stop is None and not self._start()):
                return False
            self.told.append(callback)
            return True

    def remove(self, callback: Callable[[], None]) -> None:
        """Remove a callback; without any the thread ends."""
        with self.lock:
            if callback in self.told:
                self.told.remove(callback)
            if not self.told and self._stop is not None:
                with suppress(OSError):  # closing it is not enough: a forked child may have it too
                    os.write(self._stop, b"\0")
                os.close(self._stop)
                self._stop = None

    def _start(self) -> bool:
        fds: list[int] = []
        try:
            fds.append(timer())
            fds += os.pipe2(os.O_CLOEXEC)
            begin(threading.Thread(target=self._run, args=fds[:2], name="journal-clock", daemon=True))
        except (OSError, StoreFull, AttributeError) as e:  # no timer, no descriptor, no thread (K1)
            log.info("clock_not_watched error=%s", e)
            for fd in fds:
                os.close(fd)
            return False
        self._stop = fds[2]
        return True

    def _run(self, fd: int, end: int) -> None:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.register(end, select.POLLIN)
        try:
            while not any(found == end for found, _ in poll.poll()):
                if was_set(fd):
                    with self.lock:
                        told = list(self.told)
                    for callback in told:
                        tell(callback)
        except OSError as e:
            log.warning("clock_watch_ended error=%s", e)
            with self.lock:
                self.is_failed = True
        finally:
            os.close(fd)
            os.close(end)


def tell(callback: Callable[[], None]) -> None:
    """Call back; an exception is logged and does not affect other callbacks."""
    try:
        callback()
    except Exception:
        log.exception("clock_callback_failed")


_watch = _Watch()


def add(callback: Callable[[], None]) -> bool:
    """Call `callback` on the watch's thread whenever the wall clock is set; False: it will not be called (K1)."""
    return _watch.add(callback)


def remove(callback: Callable[[], None]) -> None:
    """Do not call `callback` any more."""
    _watch.remove(callback)


def works() -> bool:
    """Whether the callbacks that were added are called."""
    return not _watch.is_failed


def _begin_again() -> None:
    global _watch
    _watch = _Watch()  # K2; its descriptors are closed with the process, or at exec


os.register_at_fork(after_in_child=_begin_again)
