"""
How large a step of timed work is, how long the lock is free between two, and all of them one after the other (timers Y2).
"""

from __future__ import annotations

from time import sleep
from typing import Protocol

from journal.engine.runtime.host import Host
from journal.engine.runtime.wakeups import Due

STEP = 64
"""Leases and entries of one step: 1 to 2 ms under the lock (20 to 30 µs each), about as long as a checkpoint holds it."""
MEMBERS = 256
"""Merged journals whose timers one step looks at: after an open most have nothing to do."""
PASS_MAX = 256
"""Entries that have expired and are not removed yet, over which a claim passes before it leaves the lock for a moment: 1 ms."""
PAUSE_S = 0.0005
"""Between two steps: a lock that is free for less is taken by the thread that had it, before another has woken up."""


class TimedHost(Host, Protocol):
    """A journal that has timers."""

    due: Due
    timer_at: int

    def enter(self) -> int: ...


def catch_up(p: TimedHost) -> None:
    """Do all timed work that is due by now, with the lock free between steps; not under the lock."""
    until: int | None = None
    while True:
        with p.lock:
            if p.trouble is not None:
                return
            now = p.enter()
            p.due.notify_all()
            until = now if until is None else until
            if p.timer_at > until:
                return
        sleep(PAUSE_S)
