"""
Stored entries become Arrow record batches, a column at a time.

The fixed parts of the entries are one numpy array (spark_export.columns.entry_arrays), so dates, priorities, versions and filters cost
nothing for a row; keys and data are copied by Arrow. Only JSON and fields make Python values.

B1  The batches have exactly the schema that Spark expects: it is given here, not made here.
B2  An entry that has expired and is not being worked on is no row, as for `get`.
B3  A lease counts while its deadline is after the moment of the snapshot, as for the journal itself, whether or not its end was
    recorded: a clean store is only read, so no engine records the leases that have ended there. The entry waits then.
B4  A date that a timestamp of microseconds cannot hold is an error that names the key; it is never another date.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from journal.core.entry.rows import PROCESSING
from journal.core.schema.schema import Schema
from spark_export.columns.entry_arrays import IS_BYTES, PackedEntries
from spark_export.columns.field_columns import FieldColumns
from spark_export.columns.json_codec import to_json
from spark_export.columns.layout import MS_MAX, Column, RowFilter, has_fields
from spark_export.errors import DATE_RANGE, invalid

OWNERS, KEYS, DATA = range(3)
"""The pieces of an entry behind its fixed part; a fourth one lies between it and the next entry's."""
_TIMESTAMP = pa.timestamp("us", tz="UTC")


class BatchShaper:
    """Turns the entries of a snapshot, which was taken at this time of the engine, into record batches with these columns."""

    def __init__(
        self,
        schema: pa.Schema,
        columns: Sequence[Column],
        rows: RowFilter,
        taken: int,
        *,
        data: Schema | None,
        decode: str,
    ) -> None:
        self._schema = schema
        self._columns = columns
        self._rows = rows
        self._taken = taken
        self._decode = decode
        names = {column.name for column in columns}
        self._fields = FieldColumns(data, columns) if data is not None and has_fields(data, decode) else None
        self._needs_data = "data" in names or any(column.field is not None for column in columns)

    def batch(self, entries: PackedEntries) -> pa.RecordBatch | None:
        """The rows of these entries; None when the filters leave none."""
        stored = StoredEntries(entries, self._taken).only(self._rows)
        if not len(stored):
            return None
        made: dict[str, pa.Array] = {}
        if self._needs_data:
            packed = stored.piece(DATA)
            if self._fields is not None:
                made = self._fields.arrays(packed)
            elif self._decode == "msgpack":
                made["data"] = packed
            else:
                made["data"] = pa.array(map(to_json, packed.to_pylist()), pa.string(), size=len(packed))
        arrays = [made[column.name] if column.name in made else _OWN[column.name](stored) for column in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class StoredEntries:
    """Entries as they are stored, or some of them."""

    def __init__(self, entries: PackedEntries, taken: int) -> None:
        self._taken = taken
        self.place, self.head, self.leases = entries.primaries, entries.heads, entries.leases
        self.date = self.place["date"].astype(np.uint64)
        self._pieces = _cut(entries)
        self._firsts = np.arange(0, 4 * len(entries), 4)
        self._mark()

    def _mark(self) -> None:
        self.is_processing = np.zeros(len(self), bool)
        self.is_processing[[n for n, row in self.leases.items() if self.is_active(row)]] = True

    def is_active(self, lease: Any) -> bool:
        """Whether the lease is active (B3)."""
        return bool(lease.status == PROCESSING and lease.deadline > self._taken)

    def __len__(self) -> int:
        return len(self._firsts)

    def piece(self, number: int) -> pa.Array:
        """One of the pieces of each entry: OWNERS, KEYS or DATA."""
        return self._pieces.take(pa.array(self._firsts + number))

    def key(self, number: int) -> str | bytes:
        """The key of one entry."""
        key: bytes = self._pieces[int(self._firsts[number]) + KEYS].as_py()
        return key if self.head["key"][number] & IS_BYTES else key.decode()

    def only(self, rows: RowFilter) -> StoredEntries:
        """Those that are rows (B2)."""
        expiration, date = self.head["expiration"].astype(np.uint64), self.date
        kept = (expiration == 0) | (expiration > self._taken) | self.is_processing
        if rows.status == "processing":
            kept &= self.is_processing
        elif rows.status is not None:
            kept &= ~self.is_processing
            if rows.status == "available":
                kept &= date <= self._taken
        if rows.priorities is not None:
            kept &= np.isin(self.place["priority"], rows.priorities)
        if rows.since is not None:
            kept &= date >= rows.since
        if rows.until is not None:
            kept &= date < rows.until
        if rows.key_prefix is not None:
            kept &= (self.head["key"] & IS_BYTES) == 0
            kept &= np.asarray(pc.starts_with(self.piece(KEYS), rows.key_prefix.encode()))
        if kept.all():
            return self
        left = copy(self)
        left.place, left.head, left.date = self.place[kept], self.head[kept], date[kept]
        left._firsts = self._firsts[kept]
        numbers = dict(zip(np.flatnonzero(kept).tolist(), range(len(left)), strict=True)) if self.leases else {}
        left.leases = {numbers[n]: row for n, row in self.leases.items() if n in numbers}
        left._mark()
        return left


def _cut(entries: PackedEntries) -> pa.Array:
    """
    Four binaries for each entry, one after the other: its owner, its key, its data, and what lies between it and the next. They are places
    in the bytes of all entries together, and what is taken of them is copied by Arrow: a tenth of what slices in Python take.
    """
    offsets = np.empty(4 * len(entries) + 1, np.int32)
    offsets[0:-1:4] = entries.tails
    offsets[1::4] = offsets[0:-1:4] + entries.heads["owner"]
    offsets[2::4] = offsets[1::4] + (entries.heads["key"] & (IS_BYTES - 1))
    offsets[3::4] = entries.ends
    offsets[-1] = offsets[-2]
    return pa.Array.from_buffers(
        pa.binary(), 4 * len(entries), [None, pa.py_buffer(offsets), pa.py_buffer(entries.whole)]
    )


def _keys(stored: StoredEntries, *, is_bytes: bool, kind: pa.DataType) -> pa.Array:
    ours = ((stored.head["key"] & IS_BYTES) != 0) == is_bytes
    if not ours.any():
        return pa.nulls(len(stored), kind)
    keys = stored.piece(KEYS)
    # A view: what a text key has is UTF-8, it was checked when it was put, and the checksum covers it.
    return (keys if ours.all() else pc.if_else(pa.array(ours), keys, pa.scalar(None, pa.binary()))).view(kind)


def _owners(stored: StoredEntries) -> pa.Array:
    has_one = stored.head["owner"] != 0
    if not has_one.any():
        return pa.nulls(len(stored), pa.string())
    return pc.if_else(pa.array(has_one), stored.piece(OWNERS), pa.scalar(None, pa.binary())).view(pa.string())


def _status(stored: StoredEntries) -> pa.Array:
    letters = np.where(stored.is_processing, ord("P"), ord("W")).astype(np.uint8)
    offsets = np.arange(len(stored) + 1, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(stored), [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


def _dates(stored: StoredEntries, dates: Any, name: str, *, is_zero_null: bool = False) -> pa.Array:
    dates = dates.astype(np.uint64)
    if (dates > MS_MAX).any():
        place = int(np.argmax(dates))
        raise invalid(
            DATE_RANGE,
            f"the {name} of {stored.key(place)!r} is {int(dates[place])} ms, which no timestamp of Spark can be: leave "
            f"that column out (option columns), or that entry (option to)",
        )
    micros = (dates.astype(np.int64) * 1000).view("datetime64[us]")
    return pa.array(micros, _TIMESTAMP, mask=dates == 0 if is_zero_null else None)


def _counted(stored: StoredEntries, name: str, kind: Any) -> pa.Array:
    """Versions and timeouts: those of the lease row count while there is one."""
    counts = stored.head[name].astype(kind)
    for n, row in stored.leases.items():
        counts[n] = getattr(row, name)
    return pa.array(counts)


def _of_leases(stored: StoredEntries, name: str, kind: pa.DataType) -> pa.Array:
    if not stored.is_processing.any():
        return pa.nulls(len(stored), kind)
    found: list[Any] = [None] * len(stored)
    for n, row in stored.leases.items():
        if stored.is_active(row):
            value = getattr(row, name)
            found[n] = min(value, MS_MAX) * 1000 if kind == _TIMESTAMP else value
    return pa.array(found, pa.int64()).cast(kind) if kind == _TIMESTAMP else pa.array(found, kind)


_OWN: dict[str, Any] = {
    "key": lambda s: _keys(s, is_bytes=False, kind=pa.string()),
    "key_bytes": lambda s: _keys(s, is_bytes=True, kind=pa.binary()),
    "priority": lambda s: pa.array(s.place["priority"].astype(np.int16)),
    "process_date": lambda s: _dates(s, s.date, "process date"),
    "insertion_date": lambda s: _dates(s, s.head["insertion"], "insertion date"),
    "expiration": lambda s: _dates(s, s.head["expiration"], "expiration", is_zero_null=True),
    "status": _status,
    "timeouts": lambda s: _counted(s, "timeouts", np.int16),
    "owner": _owners,
    "version": lambda s: _counted(s, "version", np.int64),
    "start_date": lambda s: _of_leases(s, "start", _TIMESTAMP),
    "deadline": lambda s: _of_leases(s, "deadline", _TIMESTAMP),
    "consumer": lambda s: _of_leases(s, "consumer", pa.string()),
}
