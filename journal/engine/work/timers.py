"""
What happens by itself: leases that expire, entries that expire.

`tick(now)` does one step of what is due, with a record or two, and sets the pipeline's next timer. It works from
memory (the deadline heap, the earliest expiration), never by scanning. Every call ticks first; the keeper ticks when
there are no calls, and goes on in steps while something is left.

Y1  A timer that cannot write (a full disk) is postponed, never dropped; rules look at dates themselves, so a lease
    has expired before its timer has fired.
Y2  A step takes up to STEP leases and entries, however many are due at one moment. So there may be entries that have
    expired and are not removed yet, and leases that have expired and are not taken back: nothing hands out or shows the one,
    nothing acts under the other. A verb that names such a key settles that key first (lookup).
"""

from __future__ import annotations

import logging

from journal.core import lifecycle
from journal.core.entry import effects as fx
from journal.core.entry.keys import UserKey
from journal.engine.log.durability import OS
from journal.engine.runtime.timed_steps import STEP
from journal.engine.state.leases import Held
from journal.engine.work.path import WorkPath
from journal.errors import StoreFull

log = logging.getLogger("journal.timers")

POSTPONE_MS = 1000


class Timers:
    """The timers of one journal."""

    def __init__(self, pipeline: WorkPath) -> None:
        self._p = pipeline

    def tick(self, now: int) -> int:
        """Do one step of what is due (Y2) and set when the next one is; how many leases and entries it took. Under the lock."""
        p = self._p
        taken = 0
        try:
            state = p.state
            expired = state.leases.expired(now, STEP)
            if expired:
                expire_leases(p, expired, now)
            taken = len(expired)
            if taken < STEP:
                taken += self._expire(now, STEP - taken)
            if now >= p.rotate_at:
                p.rotation_due()
            dates = (state.leases.next_deadline(), state.next_expiration, p.rotate_at)
            p.set_timer(min(date for date in dates if date is not None))
        except StoreFull as e:
            log.warning("timers_postponed journal=%s error=%s", p.name, e)
            p.set_timer(now + POSTPONE_MS)  # Y1
        return taken

    def _expire(self, now: int, limit: int) -> int:
        """Remove entries that have expired; how many."""
        p = self._p
        state = p.state
        if state.next_expiration is None or state.next_expiration > now:
            return 0
        p.flush()  # a lease that ended in this tick may have left an entry that LMDB does not have yet
        items: list[bytes | UserKey] = []
        for expiration, primary in state.expirations(limit):
            if expiration > now:
                break
            items += [primary, state.entry(primary).key]
        if items:
            expire_entries(p, items, now)
        state.look_for_expiration()
        return len(items) // 2


def expire_leases(p: WorkPath, expired: list[Held], now: int) -> None:
    """Take back leases that have expired, with one record; under the lock."""
    state = p.state
    state.leases.note_expired(held.token for held in expired)  # first: threads that see them gone may not hold the lock
    offset = p.next_offset
    effects = [
        lifecycle.expire_lease(state.holding(held), held.deadline, now, offset + i, p.settings)
        for i, held in enumerate(expired)
    ]
    p.write_all(effects, now, min(p.level, OS), is_essential=True)
    counts = p.tally.timer
    counts["leases_lost"] += len(effects)
    counts["buried"] += sum(isinstance(e, fx.Bury) for e in effects)


def expire_entries(p: WorkPath, items: list[bytes | UserKey], now: int) -> None:
    """Let entries go, given as primary key, key, …, with one record; under the lock."""
    count = len(items) // 2
    p.write(fx.Expire(items), count, now, min(p.level, OS), is_essential=True)
    p.tally.timer["expired"] += count
