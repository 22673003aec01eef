"""The rows of flags, in the active generation: name -> msgpack [message, raised, modified, count]."""

from __future__ import annotations

import msgpack

from journal.engine.rowsfile import Rows


def raise_flag(active: Rows, name: str, message: str, date: int) -> None:
    """Raise a flag, or raise it once more."""
    kept = active.get(name.encode(), db=active.flags)
    raised, count = (date, 0) if kept is None else msgpack.unpackb(kept)[1::2]
    active.delete(name.encode(), db=active.flags)  # first: see State._queue
    active.put(name.encode(), msgpack.packb((message, raised, date, count + 1)), db=active.flags)
