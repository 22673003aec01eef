"""The look-up of a key before it is changed: it first does what is overdue for that key (timers Y2)."""

from __future__ import annotations

from journal.core import lifecycle
from journal.core.entry.keys import UserKey
from journal.engine.pipeline import Pipeline
from journal.engine.work.timers import expire, lose


def find(p: Pipeline, key: UserKey, raw: bytes, now: int) -> lifecycle.Found:
    """What is stored of a key; a lease on it that is over ends first, and an entry that has expired goes. Under the lock."""
    found = p.state.find(key, raw, is_change=True)
    row = found.row
    if row is not None and found.is_processing:
        held = p.state.leases.by_primary[row.primary]
        if held.deadline <= now:
            lose(p, [held], now)
            p.flush()
            found = p.state.find(key, raw, is_change=True)
            row = found.row
    if row is not None and row.expiration and row.expiration <= now and not found.is_processing:
        expire(p, [row.primary, row.key], now)
        found = p.state.find(key, raw, is_change=True)
    return found
