"""
What both sides of a journal share: the pipeline, and the look-up that lets an entry which expired unseen go first.
"""

from __future__ import annotations

from functools import partial

from journal.core import effects as fx
from journal.core import life
from journal.core.keys import UserKey
from journal.core.rows import Row
from journal.engine.levels import OS
from journal.engine.pipeline import Pipeline


class Side:
    """One side of a journal."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._p = pipeline
        self.name = pipeline.name

    def _find(self, key: UserKey, raw: bytes, now: int) -> life.Found:
        """What is stored of a key; an entry that expired unseen goes first."""
        found = self._p.state.find(key, raw, is_change=True)
        row = found.row
        if row is not None and row.expiration and row.expiration <= now and not found.is_processing:
            self._expire(row, now)
            found = self._p.state.find(key, raw)
        return found

    def _expire(self, row: Row, now: int) -> None:
        p = self._p
        effect = fx.Expire([row.primary, row.key])
        p.write(effect, 1, now, min(p.level, OS), partial(p.state.apply, effect), is_essential=True)
