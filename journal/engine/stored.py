"""
What is stored of a journal, read: LMDB's rows, and the small part of them that is kept in memory.

The sub-databases of rows.mdb:

    entries      primary key -> entry                expirations  expiration u64, primary key -> (waiting entries only)
    keys         slot -> primary key                 owners       owner length u8, owner, primary key ->
    leases       primary key -> lease                buried       murmur, offset -> buried
    successors   slot -> successor                   flags        name -> msgpack
    meta         "applied" -> msgpack [offset, segment, position, collisions, time]; "f" + u64 -> finished tokens

X1  An entry is in `entries` and `keys`; in `owners` iff it has an owner; in `expirations` iff it expires and waits.
X2  `leases` has a row of status W for each entry in `worn`, and, when committed, one of status P for each lease.
X3  `successors` has a row only for a slot whose entry is processing.
X4  What is committed is the effect of all records up to "applied", and of none after it.
X5  `pending` holds new entries that wait, `lent` such entries under a lease, which LMDB does not have yet: an entry that
    is put, claimed and done at once never gets there. Only a put of another key, a claim and a done may come after
    them; whoever reads or changes anything else calls `flush` first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import msgpack

from journal.core.keys import UserKey, murmur, unpack_place
from journal.core.life import Found, Holding
from journal.core.limits import FINISHED_MAX, ORDINAL_MAX
from journal.core.rows import (
    WAITING,
    BuriedRow,
    LeaseRow,
    Row,
    decode_buried,
    decode_entry,
    decode_lease,
    decode_successor,
)
from journal.engine.leases import Held, Leases
from journal.engine.lmdbfile import LmdbFile
from journal.engine.order import Order
from journal.engine.segments import Place
from journal.errors import Invalid, StoreDamaged

DATABASES = (
    b"entries", b"keys", b"expirations", b"leases", b"successors", b"owners", b"buried", b"flags", b"meta",
)  # fmt: skip
_U64 = struct.Struct(">Q")
FEW = 8
"""A claim looks through so many pending entries; more of them go to LMDB first."""


class Stored:
    """The rows, leases and order of one generation. Under the journal's lock."""

    def __init__(self, file: LmdbFile, on_expiration: Callable[[int], None] = lambda date: None) -> None:
        self.file = file
        self._on_expiration = on_expiration
        self.order = Order()
        self.leases = Leases()
        self.next_expiration: int | None = None
        self.collisions = 0
        """How many keys have an ordinal above 0: while none has, a key is looked up with one get."""
        self.time = 0
        """The timestamp of the last record that was applied before the last checkpoint."""
        self.pending: dict[bytes, tuple[Row, bytes]] = {}
        self.lent: dict[bytes, tuple[Row, bytes]] = {}
        """New entries by slot, with their bytes, that LMDB does not have yet (X5)."""
        self._fresh: list[int] = []
        self._chunks: list[tuple[int, int]] = []
        dbs = file.databases
        self._entries, self._keys = dbs[b"entries"], dbs[b"keys"]
        self._expirations, self._leases = dbs[b"expirations"], dbs[b"leases"]
        self._successors, self._owners = dbs[b"successors"], dbs[b"owners"]
        self._buried, self._flags, self._meta = dbs[b"buried"], dbs[b"flags"], dbs[b"meta"]
        self.use()

    def use(self) -> None:
        """Work with the transaction that is open now."""
        txn = self.file.txn
        self._get = txn.get
        self._put = txn.put
        self._delete = txn.delete
        self._cursor = txn.cursor(db=self._entries)

    # -- loading and keeping ----------------------------------------------------------------------------------------

    def load(self) -> Place:
        """Rebuild what is in memory from the rows; the place in the log up to which they are applied."""
        self.order.clear()
        self.leases.clear()
        self._fresh.clear()
        self.pending.clear()
        self.lent.clear()
        applied = self._get(b"applied", db=self._meta)
        place = Place(0, 0, 0)
        self.collisions = 0
        if applied is not None:
            try:
                offset, segment, position, self.collisions, self.time = msgpack.unpackb(applied)
                place = Place(offset, segment, position)
            except (ValueError, TypeError) as e:
                raise StoreDamaged(f"{self.file.path}: the applied cursor is not readable: {e}") from e
        for primary, value in self._all(self._leases):
            self._load_lease(primary, self._lease(primary, value))
        for slot, _ in self._all(self._successors):
            primary = self._primary_of(slot)
            if primary not in self.leases.by_primary:
                raise StoreDamaged(f"{self.file.path}: a successor in slot {slot.hex()} follows no lease")
            self.leases.by_primary[primary].has_successor = True
        self._chunks.clear()
        for name, value in self.meta_chunks():
            tokens = struct.unpack(f">{len(value) // 8}Q", value)
            self._chunks.append((_U64.unpack(name[1:])[0], len(tokens)))
            for token in tokens:
                self.leases.finish(token)
        first = self.expirations(1)
        self.next_expiration = first[0][0] if first else None
        return place

    def _load_lease(self, primary: bytes, lease: LeaseRow) -> None:
        if lease.status == WAITING:
            self.leases.worn[primary] = lease
            return
        row = self.entry(primary)
        held = Held(
            primary, row.key, row.owner, row.expiration, lease.version, lease.timeouts, lease.start, lease.deadline,
            lease.token, lease.at, lease.consumer,
        )  # fmt: skip
        held.is_saved = True
        self.leases.add(held)

    def rebuild_order(self) -> None:
        """After loading and replay."""
        self.flush()
        self.order.rebuild(self._cursor)
        for primary in self.leases.worn:
            self.order.added(primary, len(self.leases))

    def keep(self, applied: Place, now: int) -> None:
        """Write what a checkpoint commits besides the rows (X4)."""
        self.flush()
        self.save_leases()
        self._put(b"applied", msgpack.packb((*applied, self.collisions, now)), db=self._meta)
        if self._fresh:
            number = self._chunks[-1][0] + 1 if self._chunks else 0
            self._put(b"f" + _U64.pack(number), struct.pack(f">{len(self._fresh)}Q", *self._fresh), db=self._meta)
            self._chunks.append((number, len(self._fresh)))
            self._fresh.clear()
            total = sum(size for _, size in self._chunks)
            while total - self._chunks[0][1] >= FINISHED_MAX:
                number, size = self._chunks.pop(0)
                self._delete(b"f" + _U64.pack(number), db=self._meta)
                total -= size

    def flush(self) -> None:
        """Give LMDB the new entries that it does not have yet (X5)."""
        pending = {**self.pending, **self.lent}
        if not pending:
            return
        if len(pending) == 1:
            ((slot, (row, value)),) = pending.items()
            self._put(row[0], value, db=self._entries)
            self._put(slot, row[0], db=self._keys)
        else:
            txn = self.file.txn
            txn.cursor(db=self._entries).putmulti(sorted([(row[0], value) for row, value in pending.values()]))
            txn.cursor(db=self._keys).putmulti(sorted([(slot, row[0]) for slot, (row, _) in pending.items()]))
        self.pending.clear()
        self.lent.clear()
        self.order.stored()

    def save_leases(self) -> None:
        """Write the rows of leases that are new or were extended (X2)."""
        for primary, held in self.leases.unsaved.items():
            self._put(primary, held.encoded(), db=self._leases)
            held.is_saved = True
        self.leases.unsaved.clear()

    # -- reading ----------------------------------------------------------------------------------------------------

    def take(self, limit: int, now: int, below: int) -> list[tuple[bytes, bytes]]:
        """Up to `limit` due entries with a priority under `below`, taken out of the order; as stored."""
        return self.order.take(limit, now, self._cursor, self.leases.by_primary, below)

    def take_one(self, now: int, below: int) -> Row | None:
        """The next due entry with a priority under `below`, taken out of the order; nothing is pending."""
        item = self.order.take_one(now, self._cursor, self.leases.by_primary, below)
        return None if item is None else self.row(*item)

    def take_pending(self, now: int, below: int) -> Row | None:
        """The same, when it is among few pending ones; None when LMDB may have an earlier one."""
        pending = self.pending
        if len(pending) == 1:
            ((row, _),) = pending.values()
            if unpack_place(row[0])[1] > now:
                return None
        elif len(pending) <= FEW:
            due = [row for row, _ in pending.values() if unpack_place(row[0])[1] <= now]
            if not due:
                return None
            row = min(due)
        else:
            return None
        return row if self.order.take_new(row[0], now, self._cursor, below) else None

    def next_due(self, now: int) -> int | None:
        """When the next entry falls due, or fell due; None when nothing waits."""
        return self.order.next_due_exactly(now, self._cursor, self.leases.by_primary)

    def entry(self, primary: bytes) -> Row:
        """The entry at a primary key that an index names."""
        value = self._get(primary, db=self._entries)
        if value is None:
            raise StoreDamaged(f"{self.file.path}: no entry at primary key {primary.hex()}, which an index names")
        return self.row(primary, value)

    def row(self, primary: bytes, value: bytes) -> Row:
        """The row of its bytes; damage is named with the file."""
        try:
            return decode_entry(primary, value)
        except StoreDamaged as e:
            raise StoreDamaged(f"{self.file.path}: {e}") from e

    def buried(self, name: bytes, value: bytes) -> BuriedRow:
        """The buried entry of its bytes; damage is named with the file."""
        try:
            return decode_buried(name, value)
        except StoreDamaged as e:
            raise StoreDamaged(f"{self.file.path}: {e}") from e

    def _lease(self, primary: bytes, value: bytes) -> LeaseRow:
        try:
            return decode_lease(primary, value)
        except StoreDamaged as e:
            raise StoreDamaged(f"{self.file.path}: {e}") from e

    def current(self, primary: bytes) -> Row:
        """The entry with the version and the timeouts that count (rows R4)."""
        return self.counted(self.entry(primary))

    def counted(self, row: Row) -> Row:
        """The row with the version and the timeouts that count (rows R4)."""
        held = self.leases.by_primary.get(row.primary)
        if held is not None:
            return row._replace(version=held.version, timeouts=held.timeouts, at=max(row.at, held.at))
        worn = self.leases.worn.get(row.primary)
        if worn is not None:
            return row._replace(version=worn.version, timeouts=worn.timeouts, at=worn.at)
        return row

    def lookup(self, key: UserKey, raw: bytes) -> tuple[bytes, Row | None]:
        """The slot of a key and its entry as stored; for a new key a free slot. Compares whole keys (keys K1)."""
        digest = murmur(raw)
        slot = digest + b"\0"
        if slot in self.pending or slot in self.lent:
            self.flush()
        if not self.collisions:
            primary = self._get(slot, db=self._keys)
            if primary is None:
                return slot, None
            row = self.entry(primary)
            if row.key == key:
                return slot, row
        taken = set()
        cursor = self.file.txn.cursor(db=self._keys)
        more = cursor.set_range(digest)
        while more and cursor.key()[:16] == digest:
            slot = cursor.key()
            row = self.entry(cursor.value())
            if row.key == key:
                return slot, row
            taken.add(slot[16])
            more = cursor.next()
        for ordinal in range(ORDINAL_MAX + 1):
            if ordinal not in taken:
                return digest + bytes((ordinal,)), None
        raise Invalid(f"{ORDINAL_MAX + 1} entries share the hash of the key {key!r}: finish some of them first")

    def taken(self, slots: list[bytes]) -> set[bytes]:
        """Which of these slots have an entry, in LMDB or only in memory as yet."""
        found = {slot for slot, _ in self.file.txn.cursor(db=self._keys).getmulti(slots)}
        found.update(slot for slot in slots if slot in self.pending or slot in self.lent)
        return found

    def has_any(self, slots: list[bytes]) -> bool:
        """Whether any of these slots is taken."""
        return bool(self.file.txn.cursor(db=self._keys).getmulti(slots))

    def find(self, key: UserKey, raw: bytes) -> Found:
        """All that is stored of a key."""
        slot, row = self.lookup(key, raw)
        if row is None:
            return Found(slot, None)
        held = self.leases.by_primary.get(row.primary)
        successor = self.successor(slot) if held is not None and held.has_successor else None
        return Found(slot, self.counted(row), held is not None, successor)

    def successor(self, slot: bytes) -> Row:
        """The successor in a slot that has one."""
        value = self._get(slot, db=self._successors)
        if value is None:
            raise StoreDamaged(f"{self.file.path}: the successor in slot {slot.hex()} is missing")
        try:
            return decode_successor(slot, value)
        except StoreDamaged as e:
            raise StoreDamaged(f"{self.file.path}: {e}") from e

    def holding(self, held: Held) -> Holding:
        """A lease with the row under it, for the rules."""
        row = self.entry(held.primary)._replace(version=held.version, timeouts=held.timeouts)
        return Holding(row, held.token, self.successor(held.primary[9:]) if held.has_successor else None)

    def expirations(self, limit: int) -> list[tuple[int, bytes]]:
        """The waiting entries that expire first."""
        cursor = self.file.txn.cursor(db=self._expirations)
        found: list[tuple[int, bytes]] = []
        more = cursor.first()
        while more and len(found) < limit:
            name = cursor.key()
            found.append((_U64.unpack_from(name)[0], name[8:]))
            more = cursor.next()
        return found

    def entries_from(self, primary: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Up to `limit` entries at or above a primary key, as stored."""
        cursor = self.file.txn.cursor(db=self._entries)
        found: list[tuple[bytes, bytes]] = []
        if cursor.set_range(primary):
            for item in cursor.iternext():
                found.append(item)
                if len(found) == limit:
                    break
        return found

    def buried_of(self, raw: bytes) -> list[tuple[bytes, bytes]]:
        """The buried rows whose key has this murmur, oldest first."""
        digest = murmur(raw)
        return [item for item in self._all(self._buried, digest) if item[0].startswith(digest)]

    def rows(self, database: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All rows of a sub-database, for the check and for lists."""
        return self._all(self.file.databases[database])

    def meta_chunks(self) -> Iterator[tuple[bytes, bytes]]:
        """The rows of finished tokens."""
        return (item for item in self._all(self._meta, b"f") if item[0][:1] == b"f")

    def size(self, database: bytes = b"entries") -> int:
        """How many rows a sub-database has; read from its root, not counted."""
        return int(self.file.txn.stat(self.file.databases[database])["entries"])

    def _all(self, database: Any, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        cursor = self.file.txn.cursor(db=database)
        if cursor.set_range(start) if start else cursor.first():
            for name, value in cursor.iternext():
                if start and not name.startswith(start):
                    return
                yield bytes(name), bytes(value)

    def _primary_of(self, slot: bytes) -> bytes:
        primary = self._get(slot, db=self._keys)
        if primary is None:
            raise StoreDamaged(f"{self.file.path}: no entry in slot {slot.hex()}, which an index names")
        return primary
