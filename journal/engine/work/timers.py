"""
What happens by itself: leases whose deadline passed, entries whose expiration date passed.

`tick(now)` does one step of what is due, with a record or two, and sets the pipeline's next deadline. It works from
memory (the deadline heap, the earliest expiration), never by scanning. Every call ticks first; the keeper ticks when
there are no calls, and goes on in steps while something is left.

Y1  A timer that cannot write (a full disk) is postponed, never dropped; rules look at dates themselves, so a lease
    that is over is over before its timer has fired.
Y2  A step takes up to STEP leases and entries, however many are due at one moment. So there may be entries that have
    expired and are not removed yet, and leases that are over and not taken back: nothing hands out or shows the one,
    nothing acts under the other. A verb that names such a key settles that key first (lookup).
"""

from __future__ import annotations

import logging
from functools import partial

from journal.core import lifecycle
from journal.core.entry import effects as fx
from journal.core.entry.keys import UserKey
from journal.core.limits import NEVER
from journal.engine.log.durability import OS
from journal.engine.pipeline import Pipeline
from journal.engine.runtime.timed_steps import STEP
from journal.engine.state.leases import Held
from journal.errors import StoreFull

log = logging.getLogger("journal.timers")

POSTPONE_MS = 1000


class Timers:
    """The timers of one journal."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def tick(self, now: int) -> int:
        """Do one step of what is due (Y2) and set when the next one is; how many leases and entries it took. Under the lock."""
        pipeline = self._pipeline
        taken = 0
        try:
            taken = self._lose_leases(now, STEP)
            if taken < STEP:
                taken += self._expire(now, STEP - taken)
            if now >= pipeline.generations.rotate_at:
                pipeline.generations.due()
            pipeline.timer_at = self._next()
        except StoreFull as e:
            log.warning("timers_postponed journal=%s error=%s", pipeline.name, e)
            pipeline.timer_at = now + POSTPONE_MS  # Y1
        pipeline.arm()
        return taken

    def _next(self) -> int:
        state = self._pipeline.state
        deadline = state.leases.next_deadline()
        dates = [date for date in (deadline, state.next_expiration) if date is not None]
        dates.append(self._pipeline.generations.rotate_at)
        return min(dates, default=NEVER)

    def _lose_leases(self, now: int, limit: int) -> int:
        expired = self._pipeline.state.leases.expired(now, limit)
        if expired:
            lose(self._pipeline, expired, now)
        return len(expired)

    def _expire(self, now: int, limit: int) -> int:
        """Remove entries whose expiration date passed; how many."""
        pipeline = self._pipeline
        state = pipeline.state
        if state.next_expiration is None or state.next_expiration > now:
            return 0
        pipeline.flush()  # a lease that ended in this tick may have left an entry that LMDB does not have yet
        items: list[bytes | UserKey] = []
        for expiration, primary in state.expirations(limit):
            if expiration > now:
                break
            items += [primary, state.entry(primary).key]
        if items:
            expire(pipeline, items, now)
        state.look_for_expiration()
        return len(items) // 2


def lose(p: Pipeline, expired: list[Held], now: int) -> None:
    """Take back leases whose deadline passed, with one record; under the lock."""
    state = p.state
    state.leases.note_expired(held.token for held in expired)  # first: threads that see them gone may not hold the lock
    offset = p.log.next_offset
    effects = [
        lifecycle.lose(state.holding(held), held.deadline, now, offset + i, p.settings)
        for i, held in enumerate(expired)
    ]
    effect = effects[0] if len(effects) == 1 else fx.Group([fx.to_list(e) for e in effects])
    p.write(effect, len(effects), now, min(p.level, OS), partial(state.apply, effect), is_essential=True)
    counts = p.tally.timer
    counts["leases_lost"] += len(effects)
    counts["buried"] += sum(isinstance(e, fx.Bury) for e in effects)


def expire(p: Pipeline, items: list[bytes | UserKey], now: int) -> None:
    """Let entries go, given as primary key, key, …, with one record; under the lock."""
    effect = fx.Expire(items)
    count = len(items) // 2
    p.write(effect, count, now, min(p.level, OS), partial(p.state.apply, effect), is_essential=True)
    p.tally.timer["expired"] += count
