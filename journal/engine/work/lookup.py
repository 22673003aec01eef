"""
What both sides of a journal share: the pipeline, and the look-up that first does what is overdue for a key (timers Y2).
"""

from __future__ import annotations

from journal.core import lifecycle
from journal.core.entry.keys import UserKey
from journal.core.entry.rows import pack_data
from journal.engine.arguments import Checked, Pack, checked
from journal.engine.pipeline import Pipeline
from journal.engine.work.timers import expire, lose


class Side:
    """One side of a journal."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._p = pipeline
        self.name = pipeline.name
        self._pack: Pack = pack_data
        self._checked: Checked = checked
        """How the data of puts comes: as values."""

    def _find(self, key: UserKey, raw: bytes, now: int) -> lifecycle.Found:
        """What is stored of a key; a lease on it that is over ends first, and an entry that has expired goes."""
        p = self._p
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
