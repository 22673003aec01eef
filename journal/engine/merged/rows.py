"""
The rows of one journal among many that share a generation's file: a view that puts the journal's name in front.

    entries   <name> ":" <priority> <process date> <slot> -> entry        and so in all other sub-databases
    meta      <name> ":counts" -> msgpack [entries, buried, successors, collisions]; <name> ":indexed"

A name has no ":" in it, so no journal's rows begin like another's. What is seen through the view has the keys of a
journal that has the file for itself: rules, effects and checksums do not contain the name.

B1  LMDB counts rows of a sub-database, not of a journal: the view counts as it puts and deletes, and keeps the counts in
    the same commit as the rows.
B2  A journal without rows in a generation has nothing in its `meta` but the numbers of its loads (load_numbers); its index, which is
    empty, begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgpack

from journal.engine.log.reader import RecordPlace
from journal.engine.state.bucket_index import BucketIndex
from journal.engine.state.file import GenerationRows
from journal.errors import StoreDamaged

_COUNTS = b"counts"
_COUNTED = (b"entries", b"buried", b"successors")


def prefix_of(name: bytes) -> bytes:
    """What the keys of a journal's rows begin with."""
    return name + b":"


def name_in(key: bytes) -> bytes:
    """The journal that a row belongs to."""
    return key[: key.index(b":")]


def unprefixed(key: bytes) -> bytes:
    """A row's key as its journal sees it."""
    return key[key.index(b":") + 1 :]


def behind(name: bytes) -> bytes:
    """The least key behind all rows of a journal."""
    return name + b";"


class PrefixedCursor:
    """A cursor over the rows of one journal in a sub-database."""

    def __init__(self, cursor: Any, prefix: bytes, rows: PrefixedRows, database: Any) -> None:
        self._cursor = cursor
        self._prefix = prefix
        self._skip = len(prefix)
        self._rows = rows
        self._database = database

    def set_range(self, key: bytes) -> bool:
        """Go to the first row at or above this one."""
        cursor = self._cursor
        return bool(cursor.set_range(self._prefix + key)) and cursor.key().startswith(self._prefix)

    def set_key(self, key: bytes) -> bool:
        """Go to this row."""
        return bool(self._cursor.set_key(self._prefix + key))

    def first(self) -> bool:
        """Go to the first row."""
        return self.set_range(b"")

    def next(self) -> bool:
        """Go to the next row."""
        cursor = self._cursor
        return bool(cursor.next()) and cursor.key().startswith(self._prefix)

    def key(self) -> bytes:
        """Where we are."""
        key: bytes = self._cursor.key()
        return key[self._skip :]

    def item(self) -> tuple[bytes, bytes]:
        """Where we are, and what is stored there."""
        key, value = self._cursor.item()
        return key[self._skip :], value

    def iternext(self) -> Iterator[tuple[bytes, bytes]]:
        """From where we are to the end."""
        prefix, skip = self._prefix, self._skip
        for key, value in self._cursor.iternext():
            if not key.startswith(prefix):
                return
            yield key[skip:], value

    def keys(self) -> Iterator[bytes]:
        """The same without the values."""
        prefix, skip = self._prefix, self._skip
        for key in self._cursor.iternext(keys=True, values=False):
            if not key.startswith(prefix):
                return
            yield key[skip:]

    def getmulti(self, keys: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
        """Those of these rows that there are."""
        prefix, skip = self._prefix, self._skip
        return [(key[skip:], value) for key, value in self._cursor.getmulti([prefix + key for key in keys])]

    def putmulti(self, items: Iterable[tuple[bytes, bytes]]) -> tuple[int, int]:
        """Put many rows: how many were given, how many are new."""
        prefix = self._prefix
        consumed, added = self._cursor.putmulti([(prefix + key, value) for key, value in items])
        self._rows.count(self._database, added)
        return consumed, added


class PrefixedRows(GenerationRows):
    """One journal's part of the rows of a generation. Under the lock."""

    def __init__(self, rows: GenerationRows, name: bytes) -> None:
        self.base = rows
        """All rows of the generation."""
        self.prefix = prefix_of(name)
        self.is_changed = False
        """Whether the counts are to be kept."""
        self._counts = dict.fromkeys(_COUNTED, 0)
        databases = rows.file.databases
        self._counted = [(databases[each], each) for each in _COUNTED]
        super().__init__(rows.file, rows.order)
        self.growth = rows.growth  # it is the file's

    @property
    def is_dirty(self) -> bool:
        """Whether there is something to commit in the file."""
        return self.base.is_dirty

    @is_dirty.setter
    def is_dirty(self, is_dirty: bool) -> None:
        if is_dirty:
            self.base.is_dirty = self.is_changed = True

    @property
    def ahead_at(self) -> int:
        """The place of the first record that the file did not have when it was opened."""
        return self.base.ahead_at

    @ahead_at.setter
    def ahead_at(self, at: int) -> None:
        """It is the file's."""

    def use(self) -> None:
        """Work with the transaction that is open now."""
        txn = self.file.txn
        prefix = self.prefix

        def get(key: bytes, *, db: Any) -> bytes | None:
            value: bytes | None = txn.get(prefix + key, db=db)
            return value

        def put(key: bytes, value: bytes, *, db: Any) -> bool:
            self.count(db, 1)
            return bool(txn.put(prefix + key, value, db=db))

        def delete(key: bytes, *, db: Any) -> bool:
            is_gone = bool(txn.delete(prefix + key, db=db))
            if is_gone:
                self.count(db, -1)
            return is_gone

        def cursor(*, db: Any) -> PrefixedCursor:
            return PrefixedCursor(txn.cursor(db=db), prefix, self, db)

        self.get, self.put, self.delete, self.cursor = get, put, delete, cursor
        self.by_order = cursor(db=self.entries)
        self.seen.clear()

    def count(self, database: Any, change: int) -> None:
        """Rows came or went (B1). All that are counted are new when they are put."""
        for each, name in self._counted:
            if each is database:
                self._counts[name] += change
                self.is_changed = True

    def load(self) -> tuple[RecordPlace, int]:
        """Read the counts; the place is that of the file."""
        self.is_changed = False
        self.index = BucketIndex.loaded(self)
        kept = self.get(_COUNTS, db=self.meta)
        try:
            *counts, self.collisions = (0, 0, 0, 0) if kept is None else msgpack.unpackb(kept)
            self._counts = dict(zip(_COUNTED, counts, strict=True))
        except (ValueError, TypeError) as e:
            raise StoreDamaged(f"{self.file.path}: the counts of {self.prefix!r} are not readable: {e}") from e
        return RecordPlace(0, 0, 0), 0

    def keep_counts(self) -> None:
        """Write the counts, when they have changed; a commit follows."""
        if not self.is_changed:
            return
        self.is_changed = False
        if any(self._counts.values()):
            self.put(_COUNTS, msgpack.packb((*self._counts.values(), self.collisions)), db=self.meta)
            if self.index is not None:
                self.index.keep()
        else:  # B2
            self.delete(_COUNTS, db=self.meta)
            if self.index is not None:
                self.index.forget()

    def put_sorted(self, database: Any, keys: list[bytes], values: list[bytes]) -> int:
        """Put many rows whose keys ascend; how many are new."""
        cursor: PrefixedCursor = self.cursor(db=database)
        return cursor.putmulti(zip(keys, values, strict=True))[1]

    def names(self, database: Any, start: bytes = b"") -> Iterator[bytes]:
        """The keys of a sub-database from `start` on, without the journal's name."""
        cursor: PrefixedCursor = self.cursor(db=database)
        return cursor.keys() if cursor.set_range(start) else iter(())

    @property
    def has_others(self) -> bool:
        """Whether other journals have entries, or buried ones, in the file."""
        return any(self.base.size(name) > self.size(name) for name in (b"entries", b"buried"))

    def size(self, database: bytes = b"entries") -> int:
        """How many rows this journal has in a sub-database."""
        if database in self._counts:
            return self._counts[database]
        return sum(1 for _ in self.all(self.file.databases[database]))


def counts_in(rows: GenerationRows) -> Iterator[tuple[bytes, dict[bytes, int]]]:
    """The journals that have rows in a generation, as of the last checkpoint: name, and rows by sub-database."""
    for key, value in rows.all(rows.meta):
        name, found, rest = key.partition(b":")
        if found and rest == _COUNTS:
            yield name, dict(zip(_COUNTED, msgpack.unpackb(value), strict=False))
