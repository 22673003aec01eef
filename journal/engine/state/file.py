"""
The rows of one generation: an LMDB file with its sub-databases, and a cursor that walks over several of them as one.

    entries      primary key -> entry                expirations  expiration u64, primary key -> (waiting entries only)
    keys         slot -> primary key                 owners       owner length u8, owner, primary key ->
    leases       primary key -> lease                buried       at u64, murmur -> buried
    successors   slot -> successor                   flags        name -> msgpack (the active generation's count)
    graves       murmur, at u64 ->                   (buried entries by key)
    buckets      bucket u16, primary key ->          (bucket_index: only after a claim by buckets)
    meta         "applied" -> msgpack [order, offset, segment, position, collisions, time]; "f" + u64 -> finished tokens;
                 "indexed" -> msgpack [buckets, primary key]: the entries below it are in `buckets`; "loads" (load_numbers);
                 "growth" (growth); "parts" (commit_parts)

F1  What is committed is the effect of all records up to "applied", and of none after it, on the entries of this
    generation.
F2  A file that has not changed since the active generation's last commit is good as of that commit, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgpack

from journal.core.entry.keys import BEHIND_ALL, SLOT_AT
from journal.core.log.cursor import base_of
from journal.engine.files.lmdb import LmdbFile
from journal.engine.log.reader import RecordPlace
from journal.engine.state import commit_parts
from journal.engine.state.bucket_index import BucketIndex
from journal.engine.state.growth import NAME as GROWTH
from journal.engine.state.growth import Growth
from journal.errors import StoreDamaged

DATABASES = (
    b"entries", b"keys", b"expirations", b"leases", b"successors", b"owners", b"buried", b"graves", b"flags", b"buckets",
    b"meta",
)  # fmt: skip


class GenerationRows:
    """One generation's rows. Under the journal's lock."""

    prefix = b""
    """What its keys begin with in the file."""

    def __init__(self, file: LmdbFile, order: int) -> None:
        self.file = file
        self.order = order
        self.collisions = 0
        """How many of its keys have an ordinal above 0."""
        self.is_dirty = False
        """Whether there is something to commit."""
        self.has_moved = False
        """Rows of this older generation moved to the active one since the last checkpoint."""
        self.growth = Growth()
        self.seen: dict[int, tuple[bytes, bytes, GenerationRows]] = {}
        """What `Joined` has seen of older generations, valid as long as no row goes."""
        self.ahead_at = 0
        """The place of the first record that the file did not have when it was opened."""
        self.applied_at = 0
        """The same as of its last commit, or of the one that is about to come."""
        self.index: BucketIndex | None = None
        """Of its entries by bucket; None until the first claim by buckets."""
        dbs = file.databases
        self.entries, self.keys = dbs[b"entries"], dbs[b"keys"]
        self.expirations, self.leases = dbs[b"expirations"], dbs[b"leases"]
        self.successors, self.owners = dbs[b"successors"], dbs[b"owners"]
        self.buried, self.graves, self.flags = dbs[b"buried"], dbs[b"graves"], dbs[b"flags"]
        self.buckets, self.meta = dbs[b"buckets"], dbs[b"meta"]
        self.use()

    @property
    def has_others(self) -> bool:
        """Whether other journals have entries, or buried ones, in the file."""
        return False

    def use(self) -> None:
        """Work with the transaction that is open now."""
        txn = self.file.txn
        self.get: Callable[..., bytes | None] = txn.get
        self.put: Callable[..., bool] = txn.put
        self.delete: Callable[..., bool] = txn.delete
        self.cursor: Callable[..., Any] = txn.cursor
        self.by_order: Any = txn.cursor(db=self.entries)
        self.seen.clear()

    def load(self) -> tuple[RecordPlace, int]:
        """Read what is kept beside the rows; the place up to which the log is applied, and the time then (F1)."""
        self.is_dirty = False
        self.index = BucketIndex.loaded(self)
        kept = self.get(b"applied", db=self.meta)
        self.collisions = 0
        try:
            self.growth.load(self.get(GROWTH, db=self.meta), self.file.used_bytes())
        except (ValueError, TypeError) as e:
            raise StoreDamaged(f"{self.file.path}: how it has grown is not readable: {e}") from e
        if kept is None:
            self.ahead_at = self.applied_at = base_of(self.order)
            return RecordPlace(0, 0, 0), 0
        try:
            order, offset, segment, position, self.collisions, time = msgpack.unpackb(kept)
            self.ahead_at = self.applied_at = base_of(order) + offset
            return RecordPlace(offset, segment, position), time
        except (ValueError, TypeError) as e:
            raise StoreDamaged(f"{self.file.path}: the applied cursor is not readable: {e}") from e

    def keep(self, order: int, applied: RecordPlace, now: int) -> None:
        """Write the place that a commit stands for."""
        self.applied_at = base_of(order) + applied.offset
        self.put(b"applied", msgpack.packb((order, *applied, self.collisions, now)), db=self.meta)
        self.put(GROWTH, self.growth.kept(), db=self.meta)
        if self.index is not None:
            self.index.keep()

    def keep_parts(self, older: list[GenerationRows], tail: bytes) -> None:
        """Of the active one: write which commits of the others, and which end of the log, this commit belongs to."""
        self.put(commit_parts.NAME, commit_parts.packed(older, tail), db=self.meta)

    def must_delete(self, name: bytes, database: Any, what: str) -> None:
        """Remove a row that must be there."""
        self.is_dirty = True
        if self.seen:
            self.seen.clear()
        if not self.delete(name, db=database):
            raise StoreDamaged(f"{self.file.path}: no {what} row {name.hex()} to remove")

    def remove_entry(self, primary: bytes) -> None:
        """`must_delete` of an entry and of its key, in one go."""
        self.is_dirty = True
        if self.seen:
            self.seen.clear()
        delete, slot = self.delete, primary[SLOT_AT:]
        if not delete(primary, db=self.entries):
            raise StoreDamaged(f"{self.file.path}: no entries row {primary.hex()} to remove")
        if not delete(slot, db=self.keys):
            raise StoreDamaged(f"{self.file.path}: no keys row {slot.hex()} to remove")

    def put_sorted(self, database: Any, keys: list[bytes], values: list[bytes]) -> int:
        """Put many rows whose keys ascend; how many are new. Behind all that is there a row costs no search."""
        cursor = self.cursor(db=database)
        is_behind = not cursor.last() or cursor.key() < keys[0]
        added: int = cursor.putmulti(zip(keys, values, strict=True), append=is_behind)[1]
        return added

    def all(self, database: Any, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """The rows of a sub-database, those that begin with `start`."""
        cursor = self.cursor(db=database)
        if cursor.set_range(start) if start else cursor.first():
            for name, value in cursor.iternext():
                if start and not name.startswith(start):
                    return
                yield bytes(name), bytes(value)

    def names(self, database: Any, start: bytes = b"") -> Iterator[bytes]:
        """The keys of a sub-database from `start` on; values are not read. Good until something is written."""
        cursor = self.cursor(db=database)
        found = cursor.set_range(start) if start else cursor.first()
        return cursor.iternext(keys=True, values=False) if found else iter(())

    def size(self, database: bytes = b"entries") -> int:
        """How many rows a sub-database has; read from its root, not counted."""
        return int(self.file.txn.stat(self.file.databases[database])["entries"])

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it is left to do."""
        return not self.size() and not self.size(b"buried")


class Joined:
    """
    The entries of several generations as one row of them (order.Entries): primary keys are different in all.

    Older generations get no entries, and mostly hold what is not due for long. So `_seen` records, by priority, that they
    have nothing from one key up to another, and which generation has the latter.
    """

    def __init__(self, older: list[GenerationRows], active: GenerationRows) -> None:
        self._older = older
        self._seen: dict[int, tuple[bytes, bytes, GenerationRows]] = {}
        self._unseen = (BEHIND_ALL, b"", active)
        for rows in older:
            rows.seen = self._seen
        self._active = active.by_order
        self.home = active
        """The generation of the entry that we are at."""
        self._newest = active
        self._cursors = [*(rows.by_order for rows in older), active.by_order]
        self._at: Any = None

    def set_range(self, key: bytes) -> bool:
        """Go to the first entry at or above this one."""
        low, best, home = self._seen.get(key[0], self._unseen)
        if not low <= key <= best:
            best, home = self._look(key)
        cursor = self._active
        if cursor.set_range(key) and cursor.key() < best:
            self._at, self.home = cursor, self._newest
            return True
        if best == BEHIND_ALL:
            return False
        self._at, self.home = home.by_order, home
        return bool(self._at.set_key(best))

    def _look(self, key: bytes) -> tuple[bytes, GenerationRows]:
        best, home = BEHIND_ALL, self._older[0]
        for rows in self._older:
            if rows.by_order.set_range(key):
                found = rows.by_order.key()
                if found < best:
                    best, home = found, rows
        self._seen[key[0]] = key, best, home
        return best, home

    def set_key(self, key: bytes) -> bool:
        """Go to this entry."""
        for rows in (self._newest, *self._older):
            if rows.by_order.set_key(key):
                self._at, self.home = rows.by_order, rows
                return True
        return False

    def key(self) -> bytes:
        """Where we are."""
        key: bytes = self._at.key()
        return key

    def item(self) -> tuple[bytes, bytes]:
        """Where we are, and what is stored there."""
        item: tuple[bytes, bytes] = self._at.item()
        return item

    def iternext(self) -> Iterator[tuple[bytes, bytes]]:
        """From where we are to the end."""
        start = self.key()
        heads = {}
        for cursor in self._cursors:
            if cursor.set_range(start):
                heads[cursor.key()] = cursor
        while heads:
            first = min(heads)
            cursor = heads.pop(first)
            yield cursor.item()
            if cursor.next():
                heads[cursor.key()] = cursor
