"""
What happens by itself: leases whose deadline passed, entries whose expiration date passed.

`tick(now)` does what is due, a record for at most BATCH of them, and sets the pipeline's next deadline. It works from
memory (the deadline heap, the earliest expiration), never by scanning. Every call ticks first; the keeper ticks when
nobody calls.

Y1  A timer that cannot write (a full disk) is postponed, never dropped; rules look at dates themselves, so a lease
    that is over is over before its timer has fired.
"""

from __future__ import annotations

import logging
from functools import partial

from journal.core import effects as fx
from journal.core.life import lose
from journal.core.limits import NEVER
from journal.engine.levels import OS
from journal.engine.pipeline import Pipeline
from journal.errors import StoreFull

log = logging.getLogger("journal.timers")

BATCH = 256
POSTPONE_MS = 1000


class Timers:
    """The timers of one journal."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.lost = 0
        self.buried = 0
        self.expired = 0
        pipeline.tick = self.tick

    def tick(self, now: int) -> None:
        """Do what is due; under the lock."""
        pipeline = self._pipeline
        try:
            while self._lose_leases(now) or self._expire(now):
                pass
            if now >= pipeline.generations.rotate_at:
                pipeline.generations.due()
            pipeline.timer_at = self._next()
        except StoreFull as e:
            log.warning("timers_postponed journal=%s error=%s", pipeline.name, e)
            pipeline.timer_at = now + POSTPONE_MS  # Y1
        pipeline.arm()

    def _next(self) -> int:
        state = self._pipeline.state
        deadline = state.leases.next_deadline()
        dates = [date for date in (deadline, state.next_expiration) if date is not None]
        dates.append(self._pipeline.generations.rotate_at)
        return min(dates, default=NEVER)

    def _level(self) -> int:
        return min(self._pipeline.level, OS)

    def _lose_leases(self, now: int) -> bool:
        """Take back a batch of leases whose deadline passed, with one record; whether there were any."""
        pipeline = self._pipeline
        state = pipeline.state
        overdue = state.leases.overdue(now, BATCH)
        if not overdue:
            return False
        state.leases.passed(held.token for held in overdue)  # before they are gone: who sees that may not hold the lock
        offset = pipeline.log.next_offset
        effects = [
            lose(state.holding(held), held.deadline, now, offset + i, pipeline.settings)
            for i, held in enumerate(overdue)
        ]
        effect = effects[0] if len(effects) == 1 else fx.Group([fx.to_list(e) for e in effects])
        pipeline.write(effect, len(effects), now, self._level(), partial(state.apply, effect), is_essential=True)
        self.lost += len(effects)
        self.buried += sum(isinstance(e, fx.Bury) for e in effects)
        return True

    def _expire(self, now: int) -> bool:
        """Let a batch of entries go whose expiration date passed; whether there were any."""
        pipeline = self._pipeline
        state = pipeline.state
        if state.next_expiration is None or state.next_expiration > now:
            return False
        pipeline.flush()  # a lease that ended in this tick may have left an entry that LMDB does not have yet
        items = []
        for expiration, primary in state.expirations(BATCH):
            if expiration > now:
                break
            items += [primary, state.entry(primary).key]
        if items:
            effect = fx.Expire(items)
            pipeline.write(effect, len(items) // 2, now, self._level(), partial(state.apply, effect), is_essential=True)
            self.expired += len(items) // 2
        state.look_for_expiration()
        return bool(items)
