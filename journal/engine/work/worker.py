"""
A worker's loop: claim, hand over, sleep until something falls due.

A round lasts from one wake-up to the moment nothing is due. Slow entries are handed out only in a round that found
nothing else, so a worker that has been busy looks for other work once more first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event

from journal.core.buckets import Range
from journal.core.limits import NEVER
from journal.core.times import DurationLike
from journal.engine.arguments import consumer_name, lease_ms, part_of
from journal.engine.pipeline import Pipeline
from journal.engine.runtime.timed_steps import PASSED
from journal.engine.work.bucket_index_build import enter_in
from journal.engine.work.claim import Consuming
from journal.engine.work.lease import Lease
from journal.engine.work.range_claim import claim_one_in
from journal.errors import Invalid, StoreClosed
from journal.shield import SHIELD, exposed, shielded

SLEEP_MAX_S = 60.0
STOP_LOOK_S = 0.25
"""An Event cannot be waited for together with a place: a worker with one looks at it this often."""


@shielded
class Working(Consuming):
    """The verb of consumers that wait for what falls due."""

    @exposed
    def work(
        self,
        *,
        consumer: str = "",
        lease: DurationLike | None = None,
        stop: Event | None = None,
        buckets: Range | None = None,
    ) -> Iterator[Lease]:
        """
        Leases as they fall due, for ever, with `buckets` those of a range of them: sleeps on the timer, does not poll.

        Ends when `stop` is set (within a moment; at once when `wake()` is called after it) or the store is closed. A
        slow entry (`slow_from`) comes only in a round that found nothing else.
        """
        if stop is not None and not isinstance(stop, Event):
            raise Invalid(f"stop is {stop!r}: it must be a threading.Event")
        consumer_name(consumer)
        if lease is not None:
            lease_ms(lease)
        return work(self, consumer, lease, stop, part_of(buckets, self._p.settings))

    def wake(self) -> None:
        """Have sleeping workers look around, e.g. after their `stop` was set."""
        with self._p.lock:
            self._p.due.notify_all()


def work(
    side: Consuming, consumer: str, lease: DurationLike | None, stop: Event | None, part: Range | None
) -> Iterator[Lease]:
    """Leases as they fall due."""
    p = side._p
    is_idle = True
    while stop is None or not stop.is_set():
        try:
            with SHIELD:
                if part is None:
                    taken = side._claim_one(consumer, lease, None, is_idle=is_idle)
                else:
                    taken = claim_one_in(side, part, consumer, lease, None, is_idle=is_idle)
            if taken is PASSED:
                continue
            if taken is not None:
                slow = taken.priority >= p.settings.slow_from
                is_idle = slow  # a slow entry ends its round; any other one makes this round a busy one
                yield taken
            elif is_idle:
                if stop is None:
                    sleep(p, part, lambda: False)
                else:
                    sleep(p, part, stop.is_set, STOP_LOOK_S)
            else:
                is_idle = True
        except StoreClosed:
            return


def sleep(p: Pipeline, part: Range | None, is_awake: Callable[[], bool], seconds_max: float = SLEEP_MAX_S) -> None:
    """
    Wait until something may be due, or there is a reason to look around.

    `is_awake` is called under the lock; a change of its answer that is made under the lock and notifies `due` is not missed.
    """
    with SHIELD:
        due = p.due
        with p.lock:
            now, order = (p.enter(), None) if part is None else enter_in(p, part)
            next_due = None if p.state.is_paused else (order or p.state.order).next_due(now)
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
