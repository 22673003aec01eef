"""
Loads that are made once: the last number of each name, kept with the rows.

    meta   "loads" -> msgpack [[name, number, place of its last change], …], the one that was used longest ago first

L1  A number is set by the record that has the rows of its load, and by nothing else: both are there, or neither is.
L2  At most LOAD_NAMES_MAX names are remembered, the last ones that were loaded.
L3  Names belong to a journal; of one that shares its rows with others they are under its own name, as all it has is.
"""

from __future__ import annotations

import msgpack

from journal.core.limits import LOAD_NAMES_MAX
from journal.engine.state.file import GenerationRows
from journal.errors import StoreDamaged

_LOADS = b"loads"
_SHARED = b":loads"


class Once:
    """The names of one journal. Under its lock."""

    def __init__(self) -> None:
        self.numbers: dict[str, tuple[int, int]] = {}
        """The number and the place of each name; the one that was loaded last is the last."""
        self._is_kept = True

    def set(self, name: str, number: int, at: int) -> None:
        """A load was made, and its last change is at this place (L1, L2)."""
        self.numbers.pop(name, None)
        self.numbers[name] = number, at
        if len(self.numbers) > LOAD_NAMES_MAX:
            del self.numbers[next(iter(self.numbers))]
        self._is_kept = False

    def forget(self) -> None:
        """The journal is dropped."""
        self._is_kept = not self.numbers
        self.numbers.clear()

    def load(self, active: GenerationRows) -> None:
        """Remember what is kept, and nothing else."""
        kept = active.get(_LOADS, db=active.meta)
        self._is_kept = True
        try:
            self.numbers = {} if kept is None else {name: (number, at) for name, number, at in msgpack.unpackb(kept)}
        except (ValueError, TypeError) as e:
            raise StoreDamaged(f"{active.file.path}: the numbers of loads are not readable: {e}") from e

    def keep(self, active: GenerationRows) -> None:
        """Write what has changed; a commit follows."""
        if self._is_kept:
            return
        self._is_kept = True
        active.delete(_LOADS, db=active.meta)  # first: see JournalState._queue
        if self.numbers:
            active.put(_LOADS, msgpack.packb([(name, *each) for name, each in self.numbers.items()]), db=active.meta)


def kept_in(rows: GenerationRows) -> list[tuple[bytes, bytes]]:
    """What a generation's file has of all its journals, to be taken along to the next one."""
    return [(key, value) for key, value in rows.all(rows.meta) if key == _LOADS or key.endswith(_SHARED)]
