"""
What is due now, and when the next entry falls due: for threads that notify clients and do not claim themselves.

It is read from the order of work in memory and from some keys, never from what is stored under them.
"""

from __future__ import annotations

from typing import NamedTuple

from journal.engine.runtime.wakeups import Bell
from journal.engine.work.path import WorkPath

LOOK_MAX = 1000
"""Keys that are looked at: a fraction of a millisecond. A client with so many due entries has enough to do."""


class Outlook(NamedTuple):
    """What was true at `now`."""

    now: int
    due: int
    """Entries that are due and wait; up to LOOK_MAX keys are looked at."""
    next_due: int | None
    """When the next one falls due, of those that are not; None: there are no others."""


def due_now(p: WorkPath, now: int, limit: int = LOOK_MAX) -> tuple[int, int | None]:
    """How many entries may be handed out, and when the next one falls due that is not. Under the lock, after `enter`."""
    state = p.state
    return (0, None) if state.is_paused else state.due_now(now, limit)


def outlook(p: WorkPath, bell: Bell | None = None, limit: int = LOOK_MAX) -> Outlook:
    """Look, and have the bell ring when it is no longer true; not under the lock."""
    with p.lock:
        now = p.enter()
        due, date = due_now(p, now, limit)
        if bell is not None:
            bell.until = date
        return Outlook(now, due, date)
