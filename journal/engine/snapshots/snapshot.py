"""
A snapshot: all entries of a journal as they were at one cursor, copied to files, so that many processes can read them in
parts while the journal goes on.

N1  It shows exactly the changes up to its cursor, over all generations. Entries only: no successors, nothing buried.
N2  Its parts have nothing in common, hold together all that was asked for, and each gives its entries in the order of
    work; read one after the other, so do all of them.
N3  A part is small and can be pickled. It is readable in any process that can read the files, until the snapshot is closed.
N4  Closing it removes the files. One that lies in the store is closed with the store, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from journal.core.log.cursor import Cursor
from journal.core.schema.schema import Schema
from journal.core.snapshot_blocks import Block, KeyRange, bounds, parts_number, selected, split, verify
from journal.core.times import DateLike
from journal.engine.snapshots.directories import Room
from journal.engine.snapshots.reader import Copied, read_blocks, sampled
from journal.errors import NotFound
from journal.shield import shielded


@dataclass(frozen=True)
class EngineSnapshotPart:
    """What one reader reads of a snapshot (N3)."""

    copies: tuple[Copied, ...]
    ranges: tuple[KeyRange, ...]

    def read(self) -> Iterator[Block]:
        """Its entries, some thousand at a time, in the order of work; checksums are verified."""
        for block in read_blocks(self.copies, self.ranges):
            verify(block.primaries, block.values)
            yield block


@shielded
class EngineSnapshot:
    """The entries of a journal at one cursor. Made by `Journal.snapshot`; a context manager."""

    def __init__(
        self,
        name: str,
        cursor: Cursor,
        taken: int,
        schema: Schema | None,
        copies: tuple[Copied, ...],
        room: Room,
        on_close: Callable[[EngineSnapshot], None],
    ) -> None:
        self.name = name
        """The journal's."""
        self.cursor = cursor
        """The last change that it shows."""
        self.taken = taken
        """When it was taken: engine time, in ms."""
        self.size = sum(copy.size for copy in copies)
        """How many entries it has."""
        self.schema = schema
        """All fields that the data may have: the union over the generations."""
        self.is_closed = False
        self.copies = copies
        self._room = room
        self._on_close = on_close

    def parts(
        self,
        count: int,
        *,
        since: DateLike | None = None,
        until: DateLike | None = None,
        priorities: Iterable[int] | None = None,
    ) -> list[EngineSnapshotPart]:
        """
        The entries in up to `count` parts of about the same size, and at least one (N2).

        Only those with `since <= process date < until`, and of these priorities, if they are given.
        """
        ranges, at = self.divide(parts_number(count), selected(since, until, priorities))
        return [EngineSnapshotPart(self.copies, part) for part in split(ranges, at)]

    def divide(self, count: int, ranges: list[KeyRange]) -> tuple[list[KeyRange], list[bytes]]:
        """The ranges that have entries, and the keys between parts of about the same size."""
        if self.is_closed:
            raise NotFound(f"the snapshot of journal {self.name} at {self.cursor} is closed: take another one")
        samples, used = sampled(self.copies, ranges, count)
        return used, bounds(samples, count)

    def close(self) -> None:
        """Remove its files (N4). Closing twice is fine."""
        if not self.is_closed:
            self.is_closed = True
            self._room.remove()
            self._on_close(self)

    def __enter__(self) -> EngineSnapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Snapshot {self.name} {self.cursor}, {self.size} entries>"
