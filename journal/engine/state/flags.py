"""
The rows of flags, in the active generation: name -> msgpack [message, raised, modified, count].

G1  A journal is paused as long as it has the flag PAUSED, with the reason as its message: one fact, kept with the rows, moved with the
    generations, cleared with the journal. That flag is raised by `pause` and lowered by `resume`, and by nothing else.
"""

from __future__ import annotations

import msgpack

from journal.core.values import PAUSED
from journal.engine.state.file import GenerationRows


def raise_flag(active: GenerationRows, name: str, message: str, date: int) -> None:
    """Raise a flag, or raise it once more."""
    kept = active.get(name.encode(), db=active.flags)
    raised, count = (date, 0) if kept is None else msgpack.unpackb(kept)[1::2]
    active.delete(name.encode(), db=active.flags)  # first: see JournalState._queue
    active.put(name.encode(), msgpack.packb((message, raised, date, count + 1)), db=active.flags)


def pause_in(active: GenerationRows) -> tuple[str, int] | None:
    """Why, and since when, a journal is paused (G1); None: it is not."""
    kept = active.get(PAUSED.encode(), db=active.flags)
    return None if kept is None else tuple(msgpack.unpackb(kept)[:2])
