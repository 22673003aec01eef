"""
A look at a journal without owning its store: what the last checkpoint committed, read in short transactions.

It has the shape of a Pipeline, so that a Journal can read through it; everything that would write is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from journal.core.effects import Effect
from journal.core.settings import Settings
from journal.engine.clock import EngineTime
from journal.engine.keeper import Keeper
from journal.engine.lmdbfile import MAP_BYTES, LmdbFile
from journal.engine.pipeline import NEVER, NONE, Pipeline
from journal.engine.state import State
from journal.engine.stored import DATABASES
from journal.errors import ReadOnly, StoreClosed


class Look(Pipeline):
    """Reads one generation's rows as they were committed last."""

    def __init__(self, directory: Path, name: str, settings: Settings, *, keeper: Keeper, time: EngineTime) -> None:
        super().__init__(
            directory, name, settings, keeper=keeper, time=time, opening=0, level=NONE, claim_level=NONE, sync_s=0,
            map_bytes=MAP_BYTES,
        )  # fmt: skip
        self.is_writable = False
        self.timer_at = NEVER
        self.state = State(LmdbFile(directory / "rows.mdb", DATABASES, readonly=True))

    def enter(self) -> int:
        """Look at what is committed now."""
        if self.trouble is not None:
            raise self.trouble
        self.state.file.renew()
        self.state.use()
        applied = self.state.load()
        self.log.next_offset, self.log.synced = applied.offset, applied.offset - 1
        return self.time.now()

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

    def close(self) -> int | None:
        """End the look."""
        with self.lock:
            if self.trouble is None:
                self.trouble = StoreClosed(f"the journal {self.name} is closed: its store was closed")
                self.state.file.abandon()
        return None


def _refusal() -> ReadOnly:
    return ReadOnly("the store was opened with readonly=True: open it without, or work through its owner")
