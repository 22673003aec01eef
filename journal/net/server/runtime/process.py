"""
The daemon as a process: signals, readiness, and its end.

    begin ──► ready ──► SIGHUP: reload ──► … ──► SIGTERM, SIGINT, or STOP of a client ──► what is in flight ends ──► the store is closed

J1  Signals are waited for, on one thread: none interrupts anything, and without one there is no wake-up but the watchdog's.
J2  The first SIGTERM or SIGINT ends in good order, within the time for it. A second one, after a moment, ends at once, as a crash would:
    the store is made for that, and nothing that was acknowledged is lost.
J3  A reload takes everything or nothing: what is wrong is logged, and the daemon goes on with what it has.
"""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from time import monotonic
from typing import Protocol

from journal.errors import JournalError, StorageError
from journal.net.server.runtime.health_check import is_alive
from journal.net.server.runtime.systemd import Notify
from journal.threads import begin

log = logging.getLogger("journal.daemon")

_OVER = signal.SIGUSR1
SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, _OVER})
PATIENCE_S = 0.5
"""A signal that follows the first one so soon is no second one: timeout(1) and some shells send each of them twice."""
DESCRIPTORS_OWN = 256
"""What a daemon has open beside its connections: journals, logs, threads. A journal takes about eight."""

LARGE_BLOCK = 1 << 20
_M_MMAP_THRESHOLD = -3


class Serving(Protocol):
    """What this module needs of a server that has been started."""

    @property
    def addresses(self) -> list[str]:
        """Where it listens."""

    def stop(self, timeout_s: float = ...) -> None:
        """Ask it to end; returns at once."""

    def join(self) -> object:
        """Until it has ended."""

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to end."""


@contextmanager
def signals_held() -> Iterator[None]:
    """Signals wait until they are asked for, on this thread and on all that it starts (J1)."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(eq=False)
class Process:
    """
    One server, from its start to its end. On the thread that holds the signals.

    `reload` reads files again and says what it found; `close` is called when the server has ended.
    """

    server: Serving
    _: KW_ONLY
    notify: Notify
    reload: Callable[[], str]
    close: Callable[[], None]
    stop_s: float
    status: str

    def __post_init__(self) -> None:
        self._thread = threading.get_ident()
        self._is_over = threading.Event()
        self._is_stopping = False
        self._patient_until = 0.0
        self._error: BaseException | None = None

    def run(self) -> None:
        """Until the server has ended and the store is closed; raises what went wrong at that."""
        end = begin(threading.Thread(target=self._wait_for_end, name="journal-daemon-end", daemon=True))
        self.notify.ready(self.status)
        interval = self.notify.watchdog_s
        next_sign = monotonic()
        while not self._is_over.is_set():
            if interval is None:
                self._take(signal.Signals(signal.sigwait(SIGNALS)))
                continue
            found = signal.sigtimedwait(SIGNALS, max(0.0, next_sign - monotonic()))
            if found is not None:
                self._take(signal.Signals(found.si_signo))
            elif not self._is_over.is_set():
                next_sign = monotonic() + interval
                self._sign(interval)
        end.join()
        signal.sigtimedwait({_OVER}, 0)  # it has been sent, and must not meet us when signals are not held any more
        if self._error is not None:
            raise self._error

    def _wait_for_end(self) -> None:
        """On a thread of its own: while the store is closed a second signal still counts (J2)."""
        try:
            try:
                self.server.join()
            finally:
                self.close()
            if not self.server.is_stopping:
                raise StorageError("the server ended without being asked to: the log says why")
        except BaseException as e:  # noqa: BLE001 - it is raised again by `run`
            self._error = e
        self._is_over.set()
        signal.pthread_kill(self._thread, _OVER)

    def _take(self, signum: signal.Signals) -> None:
        if signum == signal.SIGHUP:
            self._read_again()
        elif signum != _OVER:
            self._stop(signum)

    def _stop(self, signum: signal.Signals) -> None:
        if self._is_stopping:
            if monotonic() < self._patient_until:
                return  # the same signal twice, to the process and to its group: not a second request after a wait
            log.warning("ended_at_once signal=%s", signum.name)
            logging.shutdown()
            os._exit(128 + signum)
        self._is_stopping = True
        self._patient_until = monotonic() + PATIENCE_S
        log.info("stop_signal signal=%s within_s=%.1f", signum.name, self.stop_s)
        self.notify.stopping("finishes what is in flight")
        self.server.stop(self.stop_s)

    def _read_again(self) -> None:
        if self._is_stopping:
            return
        self.notify.reloading()
        try:
            found = self.reload()
            log.info("reloaded found=%s", found)
        except (JournalError, OSError) as e:
            log.error("reload_failed error=%s", e)  # J3
        self.notify.ready(self.status)

    def _sign(self, timeout_s: float) -> None:
        if is_alive(self.server.addresses, timeout_s / 2):
            self.notify.alive()
        else:
            log.error("watchdog_no_answer within_s=%.1f", timeout_s / 2)


class PidFile:
    """A file with our pid, for systems without a service manager."""

    def __init__(self, path: Path) -> None:
        self._path = path
        new = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            new.write_text(f"{os.getpid()}\n")
            new.rename(path)
        except OSError as e:
            raise StorageError(f"the pid file {path} cannot be written: {e.strerror or e}") from e

    def remove(self) -> None:
        """If it is still ours."""
        try:
            if self._path.read_text() == f"{os.getpid()}\n":
                self._path.unlink()
        except OSError as e:
            log.warning("pid_file_not_removed path=%s error=%s", self._path, e)


def make_room(connections_max: int) -> None:
    """As many descriptors as the connections need, if the system lets us; else a warning."""
    wanted = connections_max + DESCRIPTORS_OWN
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.warning("few_descriptors allowed=%d wanted=%d connections_max=%d", allowed, wanted, connections_max)


def map_large_blocks() -> None:
    """
    Have malloc map each large block by itself, for the whole process: such a block goes back to the system when it is freed.

    LMDB allocates lists of 3 MB for each file that it opens. glibc maps the first of them and, once one was freed, takes all others
    from its heaps, which the small blocks between them then split. With a rotation each second a process grew from 70 to 98 MB in half
    an hour; with this it has 47 MB and keeps them. What the operator has set in the environment stays.
    """
    if "MALLOC_MMAP_THRESHOLD_" in os.environ or "glibc.malloc.mmap_threshold" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK)
