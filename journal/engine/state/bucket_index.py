"""
The index of a generation's entries by bucket: for consumers that claim by ranges of buckets.

    buckets   bucket u16, primary key ->
    meta      "indexed" -> msgpack [buckets, up to]

It is made at the first claim by a range, in steps, while other callers work; until then there is none, and it costs
nothing. It follows from the entries alone, so no record of the log is about it: replay keeps it by the same rule (Y1).

Y1  An entry of LMDB is in the index if and only if its primary key is below `upto`. Code that adds or removes an entry keeps
    that; code that makes the index moves `upto` over entries that it has added.
Y2  `upto` is committed with the rows: a crash in the middle of making it goes on from there.
Y3  What is committed says for how many buckets it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgpack

from journal.core.buckets import bucket_of
from journal.core.entry.keys import BEHIND_ALL, SLOT_AT, bucket_key
from journal.errors import StoreDamaged

if TYPE_CHECKING:
    from journal.engine.state.file import GenerationRows

ALL = BEHIND_ALL
"""Above every primary key."""
_INDEXED = b"indexed"


class BucketIndex:
    """The index of one generation's entries. Under the journal's lock."""

    def __init__(self, rows: GenerationRows, buckets: int, upto: bytes = b"") -> None:
        self.buckets = buckets
        self.upto = upto
        self._rows = rows
        self._kept = b""

    @classmethod
    def loaded(cls, rows: GenerationRows) -> BucketIndex | None:
        """What is kept; None when there is none."""
        kept = rows.get(_INDEXED, db=rows.meta)
        if kept is None:
            return None
        try:
            buckets, upto = msgpack.unpackb(kept)
            index = cls(rows, int(buckets), bytes(upto))
        except (ValueError, TypeError) as e:
            raise StoreDamaged(f"{rows.file.path}: how far the buckets are indexed is not readable: {e}") from e
        index._kept = upto
        return index

    @property
    def is_complete(self) -> bool:
        """Whether every entry is in it."""
        return self.upto == ALL

    def keep(self) -> None:
        """Write how far it has got, if that has changed; a commit follows (Y2)."""
        if self._kept != self.upto:
            self._kept = self.upto
            self._rows.put(_INDEXED, msgpack.packb((self.buckets, self.upto)), db=self._rows.meta)

    def forget(self) -> None:
        """Write that there is none; a commit follows."""
        self._kept = b""
        self._rows.delete(_INDEXED, db=self._rows.meta)

    def key(self, primary: bytes) -> bytes:
        """The place of an entry in the index."""
        return bucket_key(bucket_of(primary, self.buckets, SLOT_AT), primary)

    def add(self, primaries: Iterable[bytes]) -> None:
        """Entries came to LMDB (Y1)."""
        upto, rows = self.upto, self._rows
        keys = [self.key(primary) for primary in primaries if primary < upto]
        if len(keys) == 1:
            rows.put(keys[0], b"", db=rows.buckets)
        elif keys:
            rows.cursor(db=rows.buckets).putmulti([(key, b"") for key in sorted(keys)])

    def remove(self, primary: bytes) -> None:
        """An entry goes (Y1)."""
        if primary < self.upto:
            self._rows.must_delete(self.key(primary), self._rows.buckets, "buckets")

    def extend(self, limit: int) -> int:
        """Take in up to `limit` more entries; LMDB has all there are. How many it took."""
        rows = self._rows
        cursor = rows.cursor(db=rows.entries)
        found: list[bytes] = []
        is_more = cursor.set_range(self.upto) if self.upto else cursor.first()
        while is_more and len(found) < limit:
            found.append(cursor.key())
            is_more = cursor.next()
        self.upto = found[-1] + b"\0" if is_more else ALL
        self.add(found)
        rows.is_dirty = True
        return len(found)


def share(known: list[GenerationRows], generations: list[GenerationRows]) -> None:
    """Generations without entries begin with an index when one of those that are known has one."""
    index = next((rows.index for rows in known if rows.index is not None), None)
    if index is not None:
        for rows in generations:
            if rows.index is None and not rows.size():
                rows.index = BucketIndex(rows, index.buckets, ALL)


def is_complete(generations: list[GenerationRows]) -> bool:
    """Whether every entry of these generations is in an index."""
    return all(rows.index is not None and rows.index.is_complete for rows in generations)


def extend(generations: list[GenerationRows], buckets: int, limit: int) -> int:
    """Take more entries of these generations in; LMDB has all there are. How many it took."""
    for rows in generations:
        if rows.index is None:
            rows.index = BucketIndex(rows, buckets)
        if rows.index.buckets != buckets:
            raise StoreDamaged(f"{rows.file.path}: the index is for {rows.index.buckets} buckets, not {buckets}")
        if not rows.index.is_complete:
            return rows.index.extend(limit)
    return 0
