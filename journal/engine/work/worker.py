"""
A worker's claims and sleeps, in the process that has the store. The loop is journal.api.worker.

A round lasts from one wake-up to the moment nothing is due. Slow entries are handed out only in a round that found
nothing else, so a worker that has been busy looks for other work once more first.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from journal.core.buckets import Range
from journal.core.limits import NEVER
from journal.engine.work.bucket_index_build import enter_in
from journal.engine.work.claim import Claims, Taken
from journal.engine.work.path import WorkPath
from journal.shield import SHIELD

SLEEP_MAX_S = 60.0
STOP_LOOK_S = 0.25
"""An Event cannot be waited for together with a place: a worker with one looks at it this often."""


class EngineTurns:
    """One worker."""

    def __init__(self, p: WorkPath, claims: Claims, consumer: str, lease_ms: int | None, buckets: Range | None) -> None:
        self._p = p
        self._claims = claims
        self._consumer = consumer
        self._lease_ms = lease_ms
        self._part = claims.part(buckets)
        self._is_idle = True

    def __enter__(self) -> EngineTurns:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def take(self) -> Taken | None:
        """The next entry; None when a round without work is over."""
        taken = self._claims.one(self._consumer, self._lease_ms, None, self._part, self._is_idle)
        if taken is not None:
            # A slow entry ends its round; any other one makes this round a busy one.
            self._is_idle = taken[0].priority >= self._p.settings.slow_from
        elif not self._is_idle:
            self._is_idle = True
            return self.take()
        return taken

    def sleep(self, stop: Event | None) -> None:
        """On the engine's timer."""
        if stop is None:
            sleep(self._p, self._part, lambda: False)
        else:
            sleep(self._p, self._part, stop.is_set, STOP_LOOK_S)


def sleep(p: WorkPath, part: Range | None, is_awake: Callable[[], bool], seconds_max: float = SLEEP_MAX_S) -> None:
    """
    Wait until something may be due, or there is a reason to look around.

    `is_awake` is called under the lock; a change of its answer that is made under the lock and notifies `due` is not missed.
    """
    with SHIELD:
        due = p.due
        with p.lock:
            now, order = (p.enter(), None) if part is None else enter_in(p, part)
            state = p.state
            next_due = None if state.is_paused else (order or state.order).next_due(now)
            if (next_due is not None and next_due <= now) or is_awake():
                return
            seconds = SLEEP_MAX_S if next_due is None else p.time.until(next_due)
            seconds = seconds_max if seconds is None else min(seconds, seconds_max)
            wakes = NEVER if next_due is None else next_due
            if order is None:
                place = due.take_place(wakes)
            else:
                place = due.take_place_apart()
                order.sleeping[place] = wakes
        try:
            place.sleep(seconds)
        finally:
            with p.lock:
                due.leave(place)
                if order is not None:
                    del order.sleeping[place]
