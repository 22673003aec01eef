"""
A look at a journal without owning its store: what the last checkpoint committed, read in short transactions.

It has the shape of a Pipeline, so that a Journal can read through it; everything that would write is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from journal.core.effects import Effect
from journal.core.limits import NEVER
from journal.core.settings import Settings
from journal.engine.clock import EngineTime
from journal.engine.generations import Kept
from journal.engine.keeper import Keeper
from journal.engine.levels import NONE
from journal.engine.lmdbfile import MAP_BYTES, LmdbFile, check_before_open
from journal.engine.pipeline import Pipeline
from journal.engine.rowsfile import DATABASES, Rows
from journal.errors import ReadOnly, StorageError, StoreClosed

LOOKS = 3


class Look(Pipeline):
    """Reads the rows of a journal's generations as they were committed last."""

    def __init__(
        self,
        top: Path,
        name: str,
        settings: Settings,
        *,
        keeper: Keeper,
        time: EngineTime,
        generations: Callable[[], list[Kept]],
        was_closed: Callable[[], bool],
    ) -> None:
        """`generations` and `was_closed` look into the catalog, on the keeper."""
        super().__init__(
            top, name, settings, kept=keeper.call(generations), keeper=keeper, time=time, opening=0, level=NONE,
            claim_level=NONE, sync_s=0, map_bytes=MAP_BYTES,
        )  # fmt: skip
        self.is_writable = False
        self.timer_at = NEVER
        self._look = generations
        self._was_closed = was_closed
        self._opened: dict[int, Rows] = {}
        self._gone: list[Rows] = []
        """Those that the catalog does not name any more, and that are to be closed."""
        self._reopen(self.generations.kept)

    def _reopen(self, kept: list[Kept]) -> None:
        """Open what has come, close what has gone."""
        orders = [each.order for each in kept if each.has_rows]
        self._gone += [self._opened.pop(order) for order in self._opened.keys() - orders]
        while self._gone and not self.generations.pins:  # else somebody copies them
            self._gone.pop().file.abandon()
        for order in orders:
            if order not in self._opened:
                path = self.directory(order) / "rows.mdb"
                check_before_open(path, None, is_live=True)
                self._opened[order] = Rows(LmdbFile(path, DATABASES, readonly=True), order)
        self.generations.kept = kept
        self.generations.look_at_schema()
        rows = [self._opened[order] for order in orders]
        if hasattr(self, "state"):
            self.state.use(rows)
        else:
            self.state = self._state_over(rows)
        if self.order != kept[-1].order:
            self.order = kept[-1].order
            self.log = self.log_of(self.order)

    def shows_all(self) -> bool:
        """Whether nothing has happened that is not committed: the last owner closed the journal, and nobody has opened it since."""
        return self.keeper.call(self._was_closed)

    def enter(self) -> int:
        """Look at what is committed now."""
        if self.trouble is not None:
            raise self.trouble
        for attempt in range(LOOKS):
            try:
                kept = self.keeper.call(self._look)
                if kept != self.generations.kept:
                    self._reopen(kept)
                break
            except (StorageError, OSError):
                # A generation may have gone between the look at the catalog and the look at its files.
                if attempt == LOOKS - 1:
                    raise
        for rows in self.state.generations:
            rows.file.renew()
        self.state.use()
        applied = self.state.load()
        self.log.next_offset = self.log.base + applied.offset
        self.log.synced = self.log.next_offset - 1
        return self.time.now()

    def look_at_settings(self) -> None:
        """There is no short way for a put: all ask for their level, and are refused."""
        self.plain_bytes_max = 0

    def level_of(self, durability: str | None, default: int) -> int:
        """Asked by every verb that would write: refused."""
        raise _refusal()

    def write(
        self,
        effect: Effect,
        count: int,
        now: int,
        level: int,
        apply: Callable[[int], None],
        *,
        is_essential: bool = False,
    ) -> int:
        """Refused."""
        raise _refusal()

    def close(self) -> dict[int, int | None]:
        """End the look."""
        with self.lock:
            if self.trouble is None:
                self.trouble = StoreClosed(f"the journal {self.name} is closed: its store was closed")
                for rows in [*self.state.generations, *self._gone]:
                    rows.file.abandon()
        return {}


def _refusal() -> ReadOnly:
    return ReadOnly("the store was opened with readonly=True: open it without, or work through its owner")
