"""
Group commit: one fdatasync for all callers that wait.

A caller that finds no sync under way makes its change and syncs by itself, at once: one thread pays for no hand-over.
Callers that come while a sync is under way hand their whole change over: one thread of the journal's own makes all that
have come, one after the other, syncs once, and wakes them through a lock that this round's callers share.

Why the change too, and not only the sync: LMDB's calls, like every system call, give the interpreter's lock away. A
caller that loses it while it holds the journal's lock stalls all other callers; 16 threads reached 2.4 times the rate of
one that way. On one thread there is no contention for either lock.

C1  No call returns before every offset up to its own is durable.
C2  After a failed sync nothing is acknowledged any more: which pages reached the disk is unknown.
C3  `io` is held during a sync, so that its error reaches the caller that asked for it (the kernel reports a failed
    write-back once for each open file). It is taken before the journal's lock, never under it.
C4  An interrupt may come at any line of a caller: no other thread waits for that caller.
C5  The journal's own thread holds `io` while it makes changes, so it never waits for the keeper, which may want `io`.
C6  Callers whose round is over are let through when the next round's sync begins, if that round is at hand and short:
    the thread needs no interpreter then. Woken earlier, they would fight for it with the thread that works for them.
C7  Nothing is handed over before the thread runs: it may be refused, for want of room; the next caller tries again.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from queue import Empty, SimpleQueue
from time import perf_counter_ns
from typing import Any, TypeVar

from journal.core.histogram import Histogram
from journal.engine.log.writer import LogWriter
from journal.errors import StorageError, StoreFailed, StoreFull
from journal.threads import begin

log = logging.getLogger("journal.commit")
R = TypeVar("R")
ROUND_MAX = 256


class _Round:
    """The callers of one sync; `gate` is held until it is over."""

    __slots__ = ("gate",)

    def __init__(self) -> None:
        self.gate = threading.Lock()
        self.gate.acquire()


class _Request:
    """A change that a caller has handed over."""

    __slots__ = ("args", "change", "error", "is_over", "kind", "result")

    def __init__(self, change: Callable[..., tuple[Any, int]], args: tuple[Any, ...], kind: ChangeKind) -> None:
        self.change = change
        self.args = args
        self.kind = kind
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_over = False


class ChangeKind(Enum):
    """What is known of a change that is handed over."""

    ANY = 0
    """It may take long."""
    SHORT = 1
    """It takes some microseconds."""
    PUT = 2
    """A short one that `put_together` can make with other puts; its arguments are those of the put."""


class NotHere(Exception):
    """A change needs what the journal's own thread cannot do; its caller must make it."""


class GroupCommit:
    """Makes a journal's log durable. `lock` is the journal's lock."""

    def __init__(
        self,
        log: LogWriter,
        lock: threading.Lock,
        name: str,
        put_together: Callable[[list[Any]], list[Any]],
        on_failure: Callable[[StoreFailed], None],
        on_synced: Callable[[], None],
    ) -> None:
        self.failed: StoreFailed | None = None
        self.syncs = 0
        self.sync_times = Histogram(per_ms=1000)
        self.io = threading.Lock()
        """Held while a sync is under way: callers that come then hand their change over."""
        self._log = log
        self._lock = lock
        self._name = name
        self._put_together = put_together
        self._on_failure = on_failure
        self._on_synced = on_synced
        self._round = _Round()
        self._over: _Round | None = None
        """The round that is over and whose callers are not let through yet (C6); the own thread's."""
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_ended = False
        self._ending = threading.Lock()

    def wait(self, offset: int) -> None:
        """Return when this offset is durable (C1)."""
        if self._log.synced < offset:
            if self.io.locked() and self._has_thread():
                self.submit(lambda: (None, offset), kind=ChangeKind.SHORT)
            else:
                with self.io:
                    self._sync(offset)
        if self.failed is not None:
            raise self.failed

    def submit(
        self, change: Callable[..., tuple[R, int]], args: tuple[Any, ...] = (), kind: ChangeKind = ChangeKind.ANY
    ) -> R:
        """Have a change made under the lock by the journal's own thread; its result when it is durable."""
        if not self._has_thread():
            raise NotHere
        request = _Request(change, args, kind)
        this = self._round
        self._requests.put(request)
        if self._is_ended:
            self._serve_rest()
        while True:
            with this.gate:  # each waiter lets the next one through
                pass
            if request.is_over:
                break
            # It came too late for the round that was the next one when it was handed over.
            this = self._round
        if request.error is not None:
            raise request.error
        result: R = request.result
        return result

    def sync_now(self) -> None:
        """Make all that was appended durable."""
        self.wait(self._log.next_offset - 1)

    def sync_locked(self) -> None:
        """Sync everything, for a caller that holds `io` and the lock, and keeps them (a checkpoint)."""
        if self.failed is not None:
            raise self.failed
        if self._log.synced < self._log.next_offset - 1:
            fd, target = self._begin()
            self._fdatasync(fd, target)

    def fail(self, error: StoreFailed) -> None:
        """Nothing more is acknowledged (C2)."""
        if self.failed is None:
            self.failed = error
            self._on_failure(error)
            log.error("store_failed journal=%s error=%s", self._name, error)

    @contextmanager
    def final(self) -> Iterator[None]:
        """A sync that fails meanwhile, of any file that the journal rests on, is final (C2)."""
        try:
            yield
        except StoreFailed as e:
            self.fail(e)
            raise

    def close(self) -> None:
        """End the thread when it has served all waiting callers; no thread holds the lock or `io`, and changes are refused."""
        with self._starting:  # or it may not have begun yet
            thread = self._thread
        if thread is not None:
            self._requests.put(None)
            thread.join()

    def is_own_thread(self) -> bool:
        """Whether we are on the thread that makes what was handed over."""
        return threading.current_thread() is self._thread

    def abandon_after_fork(self) -> None:
        """In a forked child: neither the own thread nor the thread that held `io` exists."""
        self.io = threading.Lock()

    def _has_thread(self) -> bool:
        """Whether there is the own thread, by now; where the system refuses it callers make their changes and syncs themselves (C7)."""
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name=f"journal-sync-{self._name}", daemon=True)
                    try:
                        self._thread = begin(thread)
                    except StoreFull as e:
                        log.warning("no_group_commit journal=%s error=%s", self._name, e)
                        return False
        return True

    def _sync(self, offset: int) -> None:
        """Sync up to this offset at least, holding `io` (C3)."""
        with self._lock:
            if self._log.synced >= offset:
                return
            fd, target = self._begin()
        if self._over is not None and self.is_own_thread():
            self._let_through()
        self._fdatasync(fd, target)

    def _begin(self) -> tuple[int, int]:
        """Under the lock: what the coming sync will cover. Buffered records go along."""
        if self.failed is not None:
            raise self.failed
        try:
            self._log.flush()
        except StorageError as e:
            raise self._failure(f"its buffered records could not be written: {e}") from e
        return self._log.sync_fd, self._log.next_offset - 1

    def _fdatasync(self, fd: int, target: int) -> None:
        """Sync, holding `io`; all up to the target is durable then."""
        self.syncs += 1
        began = perf_counter_ns()
        try:
            os.fdatasync(fd)
        except OSError as e:
            raise self._failure(f"it could not be synced ({e.strerror})") from e
        self.sync_times.add((perf_counter_ns() - began) // 1000)
        if target > self._log.synced:
            self._log.synced = target
        self._log.close_retired()
        self._on_synced()

    def _failure(self, what: str) -> StoreFailed:
        error = StoreFailed(
            f"the log of journal {self._name} failed: {what}. What was under way may or may not be stored. Close the "
            "store, look at the disk, and open it again"
        )
        self.fail(error)
        return error

    def _run(self) -> None:
        with self._starting:  # the thread is noted by now
            pass
        while (request := self._next()) is not None:
            if self.io.locked() or self._lock.locked():
                self._let_through()  # another thread holds a lock, for an unknown time
            with self.io:
                ending, self._round = self._round, _Round()
                requests = [request, *self._come()]
                puts = [each for each in requests if each.kind is ChangeKind.PUT]
                if len(puts) < len(requests) and any(each.kind is ChangeKind.ANY for each in requests):
                    self._let_through()
                self._make(requests, puts)
                try:
                    self._sync(self._log.next_offset - 1)
                except StoreFailed as e:
                    for each in requests:
                        each.error = e
            self._let_through()
            for each in requests:
                each.is_over = True
            self._over = ending
        self._let_through()
        self._is_ended = True
        self._serve_rest()

    def _next(self) -> _Request | None:
        """The request that the next round begins with; while there is none, callers whose round is over do not wait (C6)."""
        if self._over is not None:
            try:
                return self._requests.get_nowait()
            except Empty:
                self._let_through()
        return self._requests.get()

    def _let_through(self) -> None:
        if self._over is not None:
            over, self._over = self._over, None
            over.gate.release()

    def _serve_rest(self) -> None:
        """The thread has ended: late callers are answered here. Changes are refused; what is synced is synced."""
        with self._ending:
            requests = self._come()
            self._make(requests, [])
            for each in requests:
                each.is_over = True
            if self._round.gate.locked():
                self._round.gate.release()  # it stays open: no caller waits here any more

    def _come(self) -> list[_Request]:
        """The requests that have come meanwhile."""
        come: list[_Request] = []
        while len(come) < ROUND_MAX:
            try:
                request = self._requests.get_nowait()
            except Empty:
                break
            if request is not None:
                come.append(request)
            elif not self._is_ended:
                self._requests.put(None)  # the end comes after the requests that came before it
                break
        return come

    def _make(self, requests: list[_Request], puts: list[_Request]) -> None:
        """Make the changes of a round; `puts` are those that can be made together."""
        rest = requests
        with self._lock:
            if len(puts) > 1:
                rest = [request for request in requests if request.kind is not ChangeKind.PUT]
                try:
                    for request, result in zip(puts, self._put_together([r.args for r in puts]), strict=True):
                        if result is None:
                            rest.append(request)
                        request.result = result
                except Exception as e:  # noqa: BLE001 - it belongs to the callers, which raise it
                    for request in puts:
                        request.error = e
            for request in rest:
                try:
                    request.result, _ = request.change(*request.args)
                except Exception as e:  # noqa: BLE001 - it belongs to the caller, which raises it
                    request.error = e
