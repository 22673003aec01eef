"""
Moving survivors: what is left of older generations goes to the active one, a few entries at a time, so that files do not pile up.

Far-future entries would keep their files for years. So the oldest of too many generations is emptied, and any that had a
whole period to drain and has few entries left.

B1  A step moves at most CARRY entries, or CARRY_BYTES of them (leftovers), with one record. Leased ones move only when there are too
    many generations: most leases end before that, and each generation that they would keep costs three descriptors and 2 to 3 MB.
B2  A generation begins when there is place for it, so at most `generations_max` have rows.
    A rotation that falls due waits for that in the background; puts do not wait for it.
B3  Moves alone never make a rotation due (growth): when there are no calls, they come to an end.
B4  Between two steps the lock and the interpreter are free for PAUSE_S, for callers that work meanwhile. Without such callers there is
    no pause.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import chain, starmap
from typing import Protocol

from journal.core.entry import effects as fx
from journal.engine.log.writer import LogWriter
from journal.engine.runtime.background import Keeper
from journal.engine.runtime.host import WritingHost
from journal.engine.state.file import GenerationRows
from journal.engine.state.reader import StoredState
from journal.errors import StoreFull

log = logging.getLogger("journal.generations")

FEW_SURVIVORS = 1024
"""A generation that had a whole period to drain and has no more entries than this is emptied by moving them."""
PAUSE_S = 0.05
"""
So few puts meet a step: with steps of 8 entries one behind the other the p99 of puts at `full` was 2.4 to 3.4 times that of quiet ones, and
a fifth of them had to wait; with steps of 128 and this pause it is 1.3 to 1.6 times. 2,500 entries move in a second then.
"""


class Movable(Protocol):
    """The generations whose entries move."""

    def survivors(self, rows: GenerationRows, with_leased: bool) -> tuple[bytes, fx.Carry] | None: ...
    def move(self, name: bytes, effect: fx.Carry, now: int) -> None: ...
    def rotate_due(self) -> None: ...


class Migration:
    """The moves of one journal. On the keeper."""

    def __init__(
        self, host: WritingHost, generations: Movable, log: LogWriter, state: StoredState, keeper: Keeper
    ) -> None:
        self.is_busy = False
        """A step comes soon."""
        self.is_awaited = False
        """A rotation waits for place (B2)."""
        self._has_company = False
        """Whether callers had changed something when the last step came (B4)."""
        self._moved_to = -1
        """Where the log ended after that."""
        self._host, self._generations, self._log, self._state, self._keeper = host, generations, log, state, keeper

    def soon(self) -> None:
        """Begin, or go on."""
        if not self.is_busy:
            self.is_busy = True
            self._keeper.after(self.pause_s(), self._step)

    def pause_s(self) -> float:
        """How long to wait before the next step (B4)."""
        return PAUSE_S if self._has_company else 0

    def delays_rotation(self) -> bool:
        """Whether a rotation that is due has to wait for place; it is made as soon as there is."""
        if not self.is_awaited and self.make_place():
            self.is_awaited = True
            self.soon()
        return self.is_awaited

    def make_place(self) -> bool:
        """A step towards place for one more generation; False when there is, or when no step makes more of it."""
        return self._move(self._too_many(self._host.settings.generations_max - 1))

    def _step(self) -> None:
        self.is_busy = False
        is_awaited = self.is_awaited  # a rotation that falls due within the move has not had its place looked for
        if self._move(chain(self._too_many(self._host.settings.generations_max - is_awaited), self._few())):
            self.soon()
        elif is_awaited and self.is_awaited:
            self.is_awaited = False
            self._generations.rotate_due()

    def _move(self, older: Iterable[tuple[GenerationRows, bool]]) -> bool:
        """Move a few survivors of the first of these that has some, with those under a lease or without (B1); whether there were any."""
        host = self._host
        with host.lock:
            if host.trouble is not None:
                return False
            now = host.enter()
            self._has_company = self._log.next_offset != self._moved_to
            moves = starmap(self._generations.survivors, older)
            found = next((move for move in moves if move is not None), None)
            if found is None:
                return False
            try:
                self._generations.move(*found, now)
            except StoreFull as e:
                log.warning("migration_postponed journal=%s error=%s", host.name, e)
                return False
            self._moved_to = self._log.next_offset
        return True

    def _too_many(self, generations_max: int) -> Iterator[tuple[GenerationRows, bool]]:
        """The oldest of too many."""
        state = self._state
        yield from ((rows, True) for rows in state.older[: max(0, len(state.generations) - generations_max)])

    def _few(self) -> Iterator[tuple[GenerationRows, bool]]:
        """Those that have drained to a few entries."""
        for rows in self._state.older[:-1]:
            if 0 < rows.size() + rows.size(b"buried") <= FEW_SURVIVORS:
                yield rows, False
