"""
Starting threads: the system may refuse one, when the limit of processes or of memory is reached.

S1  A thread is recorded only when it runs: no caller waits for a thread that never began.
S2  A refusal is a StoreFull, which says what to do, and leaves nothing half begun; the next call tries again.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import Any

from journal.errors import StoreFull

REFUSALS = RuntimeError, MemoryError
"""The errors that Python raises when the system has no room for a thread."""


def begin(thread: Thread) -> Thread:
    """Start a thread (S2)."""
    try:
        thread.start()
    except REFUSALS as e:
        raise StoreFull(
            f"the system refused to start a thread ({thread.name}): {e}. The limit of processes (ulimit -u, pids.max of the container) "
            "or of memory is reached: raise it, or end something. Nothing was changed; it works again when there is room"
        ) from e
    return thread


class Workers:
    """Up to so many threads that make what is handed to them, started as they are needed. Handed over by one thread."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._queue: SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]] | None] = SimpleQueue()
        self._idle = Semaphore(0)
        self._threads: list[Thread] = []

    def submit(self, function: Callable[..., object], *args: Any) -> None:
        """Queue a function that raises nothing; StoreFull when there is no thread for it, and none can be started."""
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._most:
            try:
                thread = Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
                self._threads.append(begin(thread))
            except StoreFull:
                if not self._threads:
                    raise  # else the others do it, a little later
        self._queue.put((function, args))

    def close(self) -> None:
        """Wait until all queued functions have returned."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            function, args = job
            function(*args)
            del job, function, args  # or they live until the next one comes
            self._idle.release()
