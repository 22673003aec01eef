"""What tests of consumers need: waiting for what threads do, without sleeping."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import journal
from journal.roles.renewal_thread import renewal_thread
from journal.testing import ManualClock
from tests.engine.helpers import HANG_S, wait_asleep


class Said:
    """What callbacks and handlers said, in order."""

    def __init__(self) -> None:
        self.things: list[Any] = []
        self._changed = threading.Condition()

    def __call__(self, thing: Any) -> None:
        with self._changed:
            self.things.append(thing)
            self._changed.notify_all()

    def until(self, expected: list[Any] | Callable[[list[Any]], bool]) -> None:
        """Wait until exactly this was said, or it is as wished."""
        is_there = expected if callable(expected) else lambda things: things == expected
        with self._changed:
            assert self._changed.wait_for(lambda: is_there(self.things), HANG_S), f"only {self.things}"


@contextmanager
def brief(pages: journal.Journal, **options: Any) -> Iterator[journal.Consumer]:
    """A consumer whose end does not wait: what a test holds goes back."""
    consumer = journal.Consumer(pages, **options)
    try:
        yield consumer
    finally:
        consumer.close(finish=False)


def tended() -> None:
    """Return when the renewal thread has nothing left to do."""
    assert renewal_thread().wait_idle(HANG_S), "the renewal thread is busy"


def pass_time(clock: ManualClock, ms: int) -> None:
    """Let time pass; what is due for leases has been done on return."""
    clock.advance(ms)
    tended()


def taken(consumer: journal.Consumer) -> journal.Lease:
    """What is handed out now."""
    lease = consumer.take_nowait()
    assert lease is not None
    return lease


def sleeps(consumer: journal.Consumer) -> None:
    """Return when a consumer's own thread sleeps on the engine's timer."""
    assert consumer._thread is not None
    wait_asleep(consumer._thread)
