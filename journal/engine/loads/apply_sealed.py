"""
One load of rows that are ready, made under the lock: its record is written chunk by chunk, and each chunk is applied when it is written.

G1  It is for keys that are new and different. A load that meets entries, or has a key twice, is made row by row (apply).
G2  What was applied of a record that could not be written to its end is undone by a reload (pipeline P2): a refusal leaves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgpack

from journal.core.entry import effects as fx
from journal.core.log.cursor import cursor_of
from journal.core.values import Loaded
from journal.engine.loads.apply import LoadOptions, write_load
from journal.engine.loads.path import LoadPath

if TYPE_CHECKING:
    from journal.engine.loads.sealed_rows import ReadyRows

_unpackb = msgpack.unpackb


class ReadyLoad:
    """One load of rows that are ready and have different keys, under the lock."""

    def __init__(self, p: LoadPath, rows: ReadyRows, options: LoadOptions, now: int) -> None:
        self._p = p
        self._rows = rows
        self._options = options
        self._now = now

    def make(self) -> tuple[Loaded, int] | None:
        """Make it: what it came to, and the offset that this rests on; None when it meets entries, or may."""
        p, rows, once = self._p, self._rows, self._options.once
        state = p.state
        if state.collisions or (state.size() and state.taken(rows.slots())):
            return None
        effect = fx.Packed(
            fx.PutsEffect([]) if once is None else fx.LoadEffect(*once, []),
            2 * rows.count,
            rows.packed_bytes,
            self._inserted(),
        )
        last = write_load(p, effect, rows.count, rows.bytes, self._now, self._options.level, self._insert_keys)
        return Loaded(cursor_of(last), inserted=rows.count), last

    def _inserted(self) -> Iterator[memoryview]:
        """The pieces of the record; each is applied when it is written, as replay would do, while a processor's cache has it."""
        state, rows = self._p.state, self._rows
        for chunk in rows.chunks(self._p.next_offset):
            yield chunk.rows
            flat = _unpackb(chunk.body)
            state.insert_entries(flat[::2], flat[1::2], has_more=rows.has_more)

    def _insert_keys(self, at: int) -> None:
        state, rows, once = self._p.state, self._rows, self._options.once
        for slots, primaries in rows.keyed():
            state.insert_keys(slots, primaries)
        if once is not None:
            state.once.set(*once, at + rows.count - 1)
