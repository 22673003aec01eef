"""Waiting for work: until something of one's own falls due, or somebody says that there is a reason to look."""

from __future__ import annotations

from collections.abc import Callable

from journal.core.buckets import Range
from journal.core.limits import NEVER
from journal.engine.pipeline import Pipeline

SLEEP_MAX_S = 60.0


def sleep(p: Pipeline, buckets: Range | None, is_awake: Callable[[], bool]) -> None:
    """Return when something may be due, or `is_awake` (which is asked under the lock; who changes it then notifies `due`)."""
    with p.lock:
        now = p.enter()
        next_due = p.state.order.next_due(now)
        if (next_due is not None and next_due <= now) or is_awake():
            return
        seconds = SLEEP_MAX_S if next_due is None else p.time.until(next_due)
        me = object()
        p.sleeping[me] = NEVER if next_due is None else next_due
        try:
            p.due.wait(None if seconds is None else min(seconds, SLEEP_MAX_S))
        finally:
            del p.sleeping[me]
