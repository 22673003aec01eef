"""
Callbacks that tell a program what happened to its leases, on a thread that has nothing else to do.

Y1  The thread that queues a callback does not wait: a callback that blocks delays later callbacks of its consumer, and nothing else.
Y2  A callback that raises is logged; the next one is called all the same.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Any

from journal.errors import StoreFull
from journal.threads import begin

log = logging.getLogger("journal.consumer")

Call = tuple[Callable[..., object], tuple[Any, ...]]


class CallbackQueue:
    """The callbacks of one consumer, one after the other."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def add(self, callback: Callable[..., object] | None, *args: Any) -> None:
        """Have a callback called soon. One thread at a time."""
        if callback is None:
            return
        self._queue.put((callback, args))
        if self._thread is None:
            thread = threading.Thread(
                target=_call_all, args=(self._queue,), name=f"journal-callbacks-{self._name}", daemon=True
            )
            try:
                self._thread = begin(thread)
            except StoreFull as e:
                log.warning("callback_postponed callback=%r error=%s", callback, e)  # to the next one

    def close(self) -> None:
        """Accept no more callbacks; those that are queued are still called."""
        self._queue.put(None)


def _call_all(calls: queue.SimpleQueue[Call | None]) -> None:
    while (item := calls.get()) is not None:
        callback, args = item
        try:
            callback(*args)
        except Exception:
            log.exception("callback_failed callback=%r", callback)
        del item, callback, args  # or the consumer of the last lease would live as long as this thread
