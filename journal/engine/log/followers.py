"""The followers of a log: latches that are set when there may be more to read in it."""

from __future__ import annotations

from collections.abc import Callable

from journal.shield import Latch


class Followers:
    """Those of one journal, or of merged journals together. `add` and `remove` under the journal's lock."""

    def __init__(self) -> None:
        self.latches: tuple[Latch, ...] = ()

    def add(self, latch: Latch) -> None:
        """Set it from now on."""
        self.latches = (*self.latches, latch)

    def remove(self, latch: Latch) -> None:
        """Do not set it any more."""
        self.latches = tuple(each for each in self.latches if each is not latch)

    def tell(self) -> None:
        """There may be more to read; on any thread."""
        for latch in self.latches:
            if not latch.is_set():
                latch.set()


class CallingLatch(Latch):
    """A latch that calls back when it is set."""

    def __init__(self, callback: Callable[[], None]) -> None:
        super().__init__()
        self._callback = callback

    def set(self) -> None:
        """Set it, on any thread; the callback must be short."""
        super().set()
        self._callback()
