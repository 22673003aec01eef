"""
The generations of a journal, or of all merged ones, and its log as a row of cursors over them.
"""

from __future__ import annotations

from time import sleep

from journal.core.log import cursor_math
from journal.core.log.cursor import Cursor
from journal.core.values import Compacted, Generation
from journal.engine.work.lookup import Side
from journal.shield import shielded


@shielded
class Rotating(Side):
    """Verbs about files that come and go."""

    def generations(self) -> list[Generation]:
        """The periods, oldest first, with what keeps each."""
        p = self._p
        with p.lock:
            p.enter()
            return p.generations.list()

    def rotate(self) -> Generation:
        """Begin a new generation now; the active one."""
        p = self._p
        p.level_of(None, p.level)
        while not p.keeper.call(p.generations.rotate_if_place):
            sleep(p.generations.carrying.pause_s())  # the keeper serves other callers in between
        with p.lock:
            p.enter()
            return p.generations.newest()

    def compact(self) -> Compacted:
        """Compact the log now, up to what feed consumers hold, instead of when there is more to gain."""
        return self._p.compaction.now()

    def distance(self, a: Cursor, b: Cursor) -> int:
        """How many changes come after `a`, up to `b`; negative when `b` is before `a`. Gone generations count too."""
        return cursor_math.distance(a, b, self._spans())

    def shift(self, cursor: Cursor, n: int) -> Cursor:
        """The cursor `n` changes later, or earlier when `n` is negative."""
        return cursor_math.shift(cursor, n, self._spans())

    def lag(self, cursor: Cursor) -> int:
        """How many changes come after a cursor."""
        return cursor_math.lag(cursor, self._spans())

    def _spans(self) -> list[cursor_math.Span]:
        p = self._p
        with p.lock:
            p.enter()
            return p.generations.spans()
