"""
A worker's loop: claim, hand over, sleep until something falls due.

A round lasts from one wake-up to the moment nothing is due. Slow entries are handed out only in a round that found
nothing else, so a worker that has been busy looks for other work once more first.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import TYPE_CHECKING

from journal.core.limits import NEVER
from journal.core.times import DurationLike
from journal.engine.lease import Lease
from journal.engine.pipeline import Pipeline
from journal.errors import StoreClosed

if TYPE_CHECKING:
    from journal.engine.consuming import Consuming

SLEEP_MAX_S = 60.0
STOP_LOOK_S = 0.25
"""An Event cannot be waited for together with a Condition: a worker with one looks at it this often."""


def work(side: Consuming, consumer: str, lease: DurationLike | None, stop: Event | None) -> Iterator[Lease]:
    """Leases as they fall due."""
    p = side._p
    is_idle = True
    while stop is None or not stop.is_set():
        try:
            taken = side._claim_one(consumer, lease, None, is_idle=is_idle)
            if taken is not None:
                slow = taken.priority >= p.settings.slow_from
                is_idle = slow  # a slow entry ends its round; any other one makes this round a busy one
                yield taken
            elif is_idle:
                _sleep(p, stop)
            else:
                is_idle = True
        except StoreClosed:
            return


def _sleep(p: Pipeline, stop: Event | None) -> None:
    """Wait until something may be due, or for a sign that something changed."""
    with p.lock:
        now = p.enter()
        next_due = p.state.order.next_due(now)
        if (next_due is not None and next_due <= now) or (stop is not None and stop.is_set()):
            return
        seconds = SLEEP_MAX_S if next_due is None else p.time.until(next_due)
        me = object()
        p.sleeping[me] = NEVER if next_due is None else next_due
        try:
            if stop is not None:
                seconds = STOP_LOOK_S if seconds is None else min(seconds, STOP_LOOK_S)
            p.due.wait(None if seconds is None else min(seconds, SLEEP_MAX_S))
        finally:
            del p.sleeping[me]
