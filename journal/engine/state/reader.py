"""
What is stored of a journal, read: the rows of its generations, and the small part of them that is kept in memory.

X1  An entry is in `entries` and `keys` of one generation, its home; in `owners` iff it has an owner; in `expirations`
    iff it expires and waits. Its lease row and its successor are there too. No slot is in two generations.
X2  `leases` has a row of status W for each entry in `expired_rows`, and, when committed, one of status P for each lease.
X3  `successors` has a row only for a slot whose entry is processing.
X4  New entries go to the active generation, the last one. Flags, finished tokens and the numbers of loads are kept there only.
X5  `pending` holds new entries that wait, `lent` such entries under a lease, which LMDB does not have yet: an entry that
    is put, claimed and done at once never gets there. Only a put of another key, a claim and a done may come after
    them; code that reads or changes anything else calls `flush` first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from heapq import merge
from itertools import islice

from journal.core.buckets import Range
from journal.core.entry import effects as fx
from journal.core.entry.keys import SLOT_AT, UserKey, murmur, unpack_place
from journal.core.entry.rows import (
    WAITING,
    BuriedRow,
    LeaseRow,
    Row,
    decode_buried,
    decode_entry,
    decode_lease,
    decode_successor,
)
from journal.core.lifecycle import Found, Holding
from journal.core.limits import ORDINAL_MAX
from journal.engine.log.reader import RecordPlace
from journal.engine.state.bucket_index import is_complete, share
from journal.engine.state.clock_steps import Steps
from journal.engine.state.file import GenerationRows, Joined
from journal.engine.state.finished_tokens import Finished
from journal.engine.state.flags import pause_in
from journal.engine.state.leases import Held, Leases
from journal.engine.state.load_numbers import Once, kept_in
from journal.engine.state.order import Entries, Order
from journal.engine.state.range_order import InRange
from journal.engine.state.range_orders import Ranges
from journal.errors import Invalid, StoreDamaged

_U64 = struct.Struct(">Q")
_ACTIVE_ONLY = (b"flags", b"meta")
FEW = 8
"""A claim looks through so many pending entries; more of them go to LMDB first."""


class StoredState:
    """The rows, leases and order of a journal. Under its lock, and after `use`."""

    active: GenerationRows
    taken_from: GenerationRows  # the home of what `take_one` gave last

    def __init__(
        self,
        generations: list[GenerationRows],
        on_expiration: Callable[[int], None] = lambda date: None,
        *,
        finished: Finished | None = None,
        steps: Steps | None = None,
    ) -> None:
        """`finished`, `steps`: of journals that share their rows (finished_tokens N2)."""
        self.on_expiration = on_expiration
        self.on_index: Callable[[], None] = lambda: None
        """Called when the rows change without a record."""
        self.order = Order(is_small=finished is not None)
        self.leases = Leases()
        self.next_expiration: int | None = None
        self.collisions = 0  # how many keys have an ordinal above 0: while none has, a key is looked up with one get
        self.time = 0
        """The timestamp of the last record that was applied before the last checkpoint."""
        self.pending: dict[bytes, tuple[Row, bytes]] = {}
        self.lent: dict[bytes, tuple[Row, bytes]] = {}
        """New entries by slot, with their bytes, that LMDB does not have yet (X5)."""
        self.finished = Finished() if finished is None else finished
        self.steps = Steps() if steps is None else steps
        self._has_own_finished = finished is None
        self.once = Once()
        self.is_paused = False  # whether nothing is handed out (flags G1)
        self.generations = generations
        if generations:
            self.use(generations)

    def use(self, generations: list[GenerationRows] | None = None) -> None:
        """Work with these generations, oldest first, and with the transactions that are open now."""
        before = self.generations
        if generations is not None:
            self.generations = generations
            self.active = self.taken_from = generations[-1]
            self.older = generations[:-1]
        active = self.active
        for rows in self.generations:
            rows.use()
        self.file = active.file
        self._get = active.get
        self._entries, self._keys = active.entries, active.keys
        self._cursor: Entries = Joined(self.older, active) if self.older else active.by_order
        self.order.stored()
        share(before, self.generations)
        if isinstance(self.order, Ranges):
            self.order.use(self.generations)

    # -- loading and keeping ----------------------------------------------------------------------------------------

    def load(self) -> RecordPlace:
        """Rebuild what is in memory from the rows; the place in the log up to which they are applied."""
        self.order.clear()
        self.leases.clear()
        self.pending.clear()
        self.lent.clear()
        if self._has_own_finished:
            self.steps.load(self.active)
        for rows in self.generations:
            place, self.time = rows.load()
            for primary, value in rows.all(rows.leases):
                self._load_lease(rows, primary, self._lease(rows, primary, value))
            for slot, _ in rows.all(rows.successors):
                held = self.leases.by_primary.get(self._primary_of(rows, slot))
                if held is None:
                    raise StoreDamaged(f"{rows.file.path}: a successor in slot {slot.hex()} follows no lease")
                held.has_successor = True
        self.collisions = sum(rows.collisions for rows in self.generations)
        if self._has_own_finished:
            self.finished.load(self.active)
        self.once.load(self.active)
        self.look_for_expiration()
        self.look_for_pause()
        share(self.generations, self.generations)
        return place

    def look_for_expiration(self) -> None:
        """Find out when the next entry expires."""
        first = self.expirations(1)
        self.next_expiration = first[0][0] if first else None

    def look_for_pause(self) -> None:
        """Find out whether something may be handed out."""
        self.is_paused = pause_in(self.active) is not None

    def _load_lease(self, rows: GenerationRows, primary: bytes, lease: LeaseRow) -> None:
        if lease.status == WAITING:
            self.leases.expired_rows[primary] = lease
            return
        row = self.entry(primary)
        lease = self.steps.moved_lease(lease)
        held = Held(
            primary, row.key, row.owner, row.expiration, lease.version, lease.timeouts, lease.start, lease.deadline,
            lease.token, lease.at, lease.consumer, rows,
        )  # fmt: skip
        held.is_saved = True
        self.leases.add(held)

    def rebuild_order(self) -> None:
        """After loading and replay."""
        self.flush()
        self.order.rebuild(self._cursor)
        for primary in self.leases.expired_rows:
            self.order.added(primary, len(self.leases))

    def keep(self, order: int, applied: RecordPlace, now: int) -> None:
        """Write what a checkpoint commits besides the rows (X2, file F1)."""
        self.flush()
        self.save_leases()
        for rows in self.older:
            if rows.is_dirty:
                rows.keep(order, applied, now)
        self.active.keep(order, applied, now)
        self.finished.keep(self.active)
        self.steps.keep(self.active)
        self.once.keep(self.active)

    def move_to(self, rows: GenerationRows) -> None:
        """Go on with another active generation; nothing is pending and all is committed (X4)."""
        flags, loads = list(self.active.all(self.active.flags)), kept_in(self.active)
        self.use([*self.generations, rows])
        for name, value in flags:
            rows.put(name, value, db=rows.flags)
        for name, value in loads:
            rows.put(name, value, db=rows.meta)
        self.finished.move_to(rows)
        self.steps.move_to(rows)

    def step(self, step: fx.StepEffect, at: int) -> None:
        """The clock was set (clock_steps D1)."""
        self.steps.add(at, step)
        self.leases.move(step.by, at)

    def flush(self) -> None:
        """Give LMDB the new entries that it does not have yet (X5)."""
        pending = {**self.pending, **self.lent}
        if not pending:
            return
        if len(pending) == 1:
            ((slot, (row, value)),) = pending.items()
            self.active.put(row[0], value, db=self._entries)
            self.active.put(slot, row[0], db=self._keys)
        else:
            cursor = self.active.cursor
            cursor(db=self._entries).putmulti(sorted([(row[0], value) for row, value in pending.values()]))
            cursor(db=self._keys).putmulti(sorted([(slot, row[0]) for slot, (row, _) in pending.items()]))
        if self.active.index is not None:
            self.active.index.add([row[0] for row, _ in pending.values()])
        self.pending.clear()
        self.lent.clear()
        self.order.stored()

    def save_leases(self) -> None:
        """Write the rows of leases that are new or were extended (X2)."""
        for primary, held in self.leases.unsaved.items():
            home = held.home
            home.put(primary, held.encoded(), db=home.leases)
            home.is_dirty = held.is_saved = True
        self.leases.unsaved.clear()

    # -- buckets ----------------------------------------------------------------------------------------------------

    def order_in(self, part: Range) -> InRange | None:
        """The order of a range of buckets; None while not every entry is in the index. Nothing is pending."""
        ranges = self.order
        order = ranges.get(part) if isinstance(ranges, Ranges) else None
        if order is None:
            index = self.active.index
            if index is None or not is_complete(self.generations):
                return None
            if not isinstance(ranges, Ranges):
                made = Ranges(index.buckets, is_small=ranges.is_small)
                made.rebuild(self._cursor)
                ranges = self.order = made
            order = ranges.begin(part, self.generations, self._cursor)
        return order

    # -- reading ----------------------------------------------------------------------------------------------------

    def take(self, order: Order, limit: int, now: int, below: int) -> list[tuple[bytes, bytes]]:
        """Up to `limit` due entries with a priority under `below`, taken out of an order; as stored."""
        return order.take(limit, now, self._cursor, self.leases.by_primary, below)

    def take_one(self, now: int, below: int, order: Order | None = None) -> Row | None:
        """The next due entry with a priority under `below`, taken out of the order, or out of that of a range; nothing is pending."""
        cursor = self._cursor
        item = (self.order if order is None else order).take_one(now, cursor, self.leases.by_primary, below)
        if item is None:
            return None
        self.taken_from = cursor.home if isinstance(cursor, Joined) else self.active
        primary, value = item
        return self.row(primary, value)

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

    def due_now(self, now: int, limit: int) -> tuple[int, int | None]:
        """How many entries are due, of up to `limit` keys, and when the next one falls due that is not; nothing is pending."""
        return self.order.due_now(
            now, limit, self._cursor, self.leases.by_primary, partial(self.names_from, b"entries")
        )

    def oldest_due(self, now: int) -> int | None:
        """When the entry fell due that is due for the longest time, of any priority; nothing is pending."""
        return self.order.oldest_due(now, self._cursor, self.leases.by_primary)

    def home(self, primary: bytes) -> GenerationRows:
        """The generation of an entry that is stored."""
        if not self.older:
            return self.active
        for rows in reversed(self.generations):
            if rows.get(primary, db=rows.entries) is not None:
                return rows
        raise StoreDamaged(f"{self.file.path}: no entry at primary key {primary.hex()}, which an index names")

    def entry(self, primary: bytes) -> Row:
        """The entry at a primary key that an index names."""
        home = self.home(primary)
        value = home.get(primary, db=home.entries)
        if value is None:
            raise StoreDamaged(f"{self.file.path}: no entry at primary key {primary.hex()}, which an index names")
        return self.row(primary, value)

    def row(self, primary: bytes, value: bytes) -> Row:
        """The row of its bytes; damage is named with the file."""
        try:
            return decode_entry(primary, value)
        except StoreDamaged as e:
            raise StoreDamaged(f"{self.file.path}: {e}") from e

    def expiration_of(self, primary: bytes) -> int:
        """When the entry at a primary key expires, 0 for never; without a look at the rest of it."""
        home = self.home(primary)
        value = home.get(primary, db=home.entries)
        return 0 if value is None else int.from_bytes(value[12:20], "big")

    def buried(self, name: bytes, value: bytes) -> BuriedRow:
        """The buried entry of its bytes; damage is named with the file."""
        try:
            return decode_buried(name, value)
        except StoreDamaged as e:
            raise StoreDamaged(f"{self.file.path}: {e}") from e

    def _lease(self, rows: GenerationRows, primary: bytes, value: bytes) -> LeaseRow:
        try:
            return decode_lease(primary, value)
        except StoreDamaged as e:
            raise StoreDamaged(f"{rows.file.path}: {e}") from e

    def counted(self, row: Row) -> Row:
        """The row with the version and the timeouts that count (rows R4)."""
        held = self.leases.by_primary.get(row.primary)
        if held is not None:
            return row._replace(version=held.version, timeouts=held.timeouts, at=max(row.at, held.at))
        expired = self.leases.expired_rows.get(row.primary)
        if expired is not None:
            return row._replace(version=expired.version, timeouts=expired.timeouts, at=expired.at)
        return row

    def lookup(self, key: UserKey, raw: bytes) -> tuple[bytes, Row | None]:
        """The slot of a key and its entry as stored; for a new key a free slot. Compares whole keys (keys K1)."""
        digest = murmur(raw)
        slot = digest + b"\0"
        if slot in self.pending or slot in self.lent:
            self.flush()
        if not self.collisions:
            primary = self._get(slot, db=self._keys)
            if primary is None and self.older:
                primary = self._in_older(slot)
            if primary is None:
                return slot, None
            row = self.entry(primary)
            if row.key == key:
                return slot, row
        taken = set()
        for rows in self.generations:
            for slot, primary in rows.all(rows.keys, digest):
                row = self.entry(primary)
                if row.key == key:
                    return slot, row
                taken.add(slot[16])
        for ordinal in range(ORDINAL_MAX + 1):
            if ordinal not in taken:
                return digest + bytes((ordinal,)), None
        raise Invalid(f"{ORDINAL_MAX + 1} entries share the hash of the key {key!r}: finish some of them first")

    def _in_older(self, slot: bytes) -> bytes | None:
        for rows in self.older:
            primary = rows.get(slot, db=rows.keys)
            if primary is not None:
                return primary
        return None

    def taken(self, slots: list[bytes]) -> set[bytes]:
        """Which of these slots have an entry, in LMDB or only in memory as yet."""
        found = {slot for rows in self.generations for slot, _ in rows.cursor(db=rows.keys).getmulti(slots)}
        if self.pending or self.lent:
            found.update(slot for slot in slots if slot in self.pending or slot in self.lent)
        return found

    def find(self, key: UserKey, raw: bytes, *, is_change: bool = False) -> Found:
        """All that is stored of a key; for a change with the dates of now (clock_steps D2)."""
        slot, row = self.lookup(key, raw)
        if row is None:
            return Found(slot, None)
        held = self.leases.by_primary.get(row.primary)
        successor = self.successor(held) if held is not None and held.has_successor else None
        if is_change:
            row, successor = self.steps.moved(row), successor and self.steps.moved(successor)
        return Found(slot, self.counted(row), held is not None, successor)

    def successor(self, held: Held) -> Row:
        """The successor of an entry under a lease that has one."""
        value = self.successor_value(held)
        try:
            return decode_successor(held.primary[SLOT_AT:], value)
        except StoreDamaged as e:
            raise StoreDamaged(f"{self.file.path}: {e}") from e

    def successor_value(self, held: Held) -> bytes:
        """The same as it is stored."""
        slot = held.primary[SLOT_AT:]
        value: bytes | None = held.home.get(slot, db=held.home.successors)
        if value is None:
            raise StoreDamaged(f"{self.file.path}: the successor in slot {slot.hex()} is missing")
        return value

    def holding(self, held: Held) -> Holding:
        """A lease with the row under it, for the rules, with the dates of now (clock_steps D2)."""
        row = self.steps.moved(self.entry(held.primary))._replace(version=held.version, timeouts=held.timeouts)
        return Holding(row, held.token, self.steps.moved(self.successor(held)) if held.has_successor else None)

    def expirations(self, limit: int) -> list[tuple[int, bytes]]:
        """The waiting entries that expire first."""
        found: list[tuple[int, bytes]] = []
        for rows in self.generations:
            cursor = rows.cursor(db=rows.expirations)
            more = cursor.first()
            for _ in range(limit):
                if not more:
                    break
                name = cursor.key()
                found.append((_U64.unpack_from(name)[0], name[8:]))
                more = cursor.next()
        return sorted(found)[:limit]

    def entries_from(self, primary: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Up to `limit` entries at or above a primary key, as stored."""
        cursor = self._cursor
        return list(islice(cursor.iternext(), limit)) if cursor.set_range(primary) else []

    def names_from(self, database: bytes, start: bytes) -> Iterator[bytes]:
        """The keys of a sub-database at or above `start`, over all generations, in order; values are not read."""
        if not self.older:
            return self.active.names(self.active.file.databases[database], start)
        return merge(*(rows.names(rows.file.databases[database], start) for rows in self.generations))

    def rows(self, database: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All rows of a sub-database, for the check and for lists."""
        for rows in [self.active] if database in _ACTIVE_ONLY else self.generations:
            yield from rows.all(rows.file.databases[database])

    def size(self, database: bytes = b"entries") -> int:
        """How many rows a sub-database has; read from its root, not counted."""
        return sum(rows.size(database) for rows in self.generations)

    def _primary_of(self, rows: GenerationRows, slot: bytes) -> bytes:
        primary = rows.get(slot, db=rows.keys)
        if primary is None:
            raise StoreDamaged(f"{rows.file.path}: no entry in slot {slot.hex()}, which an index names")
        return primary
