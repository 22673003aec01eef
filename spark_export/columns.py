"""
Blocks of stored entries become Arrow record batches, a column at a time.

The fixed part of every entry is read as one numpy array over the bytes as they are stored (journal.core.rows has the format), so dates,
priorities, versions and filters cost nothing for a row; keys and data are copied by Arrow. Only JSON and fields make Python values.

B1  The batches have exactly the schema that Spark expects: it is given here, not made here.
B2  An entry that has expired and is not being worked on is no row, as for `get`.
B3  A date that a timestamp of microseconds cannot hold is an error that names the key; it is never another date.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from journal.core.keys import PRIMARY_BYTES
from journal.core.rows import (
    ENTRY_HEAD,
    KEY_HIGH_AT,
    KEY_LOW_AT,
    OWNER_AT,
    PROCESSING,
    LeaseRow,
    decode_lease,
    entry_key,
)
from journal.core.schema import Schema
from journal.errors import Invalid
from spark_export.fields import FieldColumns
from spark_export.jsondata import to_json
from spark_export.layout import Column, has_fields
from spark_export.problems import DATE_RANGE, problem

PRIMARY = np.dtype([("priority", "u1"), ("date", ">u8"), ("slot", "V17")])
HEAD = np.dtype(
    [("crc", ">u4"), ("insertion", ">u8"), ("expiration", ">u8"), ("accepted", ">u8"), ("at", ">u8"), ("version", ">u4"),
     ("timeouts", "u1"), ("owner", "u1"), ("key", ">u2")]
)  # fmt: skip
assert (PRIMARY.itemsize, HEAD.itemsize) == (PRIMARY_BYTES, ENTRY_HEAD)
IS_BYTES = 0x8000
HEADS, OWNERS, KEYS, DATA = range(4)
"""The pieces of an entry."""
MS_MAX = ((1 << 63) - 1) // 1000
BATCH_BYTES_MAX = 64 << 20
"""Arrow's offsets have 32 bits: a block of the largest entries is cut into batches that stay far below."""
_TIMESTAMP = pa.timestamp("us", tz="UTC")


class Block(Protocol):
    """Some entries as they are stored (a block of a snapshot)."""

    @property
    def primaries(self) -> Sequence[bytes]: ...

    @property
    def values(self) -> Sequence[bytes]: ...

    @property
    def leases(self) -> dict[int, bytes]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Which entries are rows."""

    taken: int
    """The engine's time at which the snapshot was taken."""
    status: str | None = None
    priorities: tuple[int, ...] | None = None
    since: int | None = None
    until: int | None = None
    key_prefix: str | None = None


class Shaper:
    """Turns blocks into record batches with these columns."""

    def __init__(
        self, schema: pa.Schema, columns: Sequence[Column], rows: Rows, *, data: Schema | None, decode: str
    ) -> None:
        self._schema = schema
        self._columns = columns
        self._rows = rows
        self._decode = decode
        names = {column.name for column in columns}
        self._fields = FieldColumns(data, columns) if data is not None and has_fields(data, decode) else None
        self._needs_data = "data" in names or any(column.field is not None for column in columns)

    def batches(self, block: Block) -> Iterator[pa.RecordBatch]:
        """The rows of a block; none when the filters leave none."""
        primaries, values, leases = block.primaries, block.values, _leases(block)
        total = sum(map(len, values))
        step = len(values) if total <= BATCH_BYTES_MAX else max(1, len(values) * BATCH_BYTES_MAX // total)
        for start in range(0, len(values), step or 1):
            end = start + step
            held = leases if step == len(values) else {n - start: row for n, row in leases.items() if start <= n < end}
            batch = self._batch(Stored(primaries[start:end], values[start:end], held))
            if batch is not None:
                yield batch

    def _batch(self, stored: Stored) -> pa.RecordBatch | None:
        stored = stored.only(self._rows)
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


class Stored:
    """Entries as they are stored, with their fixed parts as arrays."""

    def __init__(self, primaries: Sequence[bytes], values: Sequence[bytes], leases: dict[int, LeaseRow]) -> None:
        self.primaries, self.values, self.leases = primaries, values, leases
        self.place = np.frombuffer(b"".join(primaries), PRIMARY)
        self._pieces = _cut(values)
        self.head = np.frombuffer(self.piece(HEADS).buffers()[2] or b"", HEAD)
        self.is_processing = np.zeros(len(values), bool)
        self.is_processing[[n for n, row in leases.items() if row.status == PROCESSING]] = True

    def __len__(self) -> int:
        return len(self.values)

    def piece(self, number: int) -> pa.Array:
        """One of the pieces of each entry: HEADS, OWNERS, KEYS or DATA."""
        return self._pieces.take(pa.array(np.arange(number, 4 * len(self.values), 4)))

    def only(self, rows: Rows) -> Stored:
        """Those that are rows (B2)."""
        expiration, date = self.head["expiration"], self.place["date"]
        kept = (expiration == 0) | (expiration > rows.taken) | self.is_processing
        if rows.status == "processing":
            kept &= self.is_processing
        elif rows.status is not None:
            kept &= ~self.is_processing
            if rows.status == "available":
                kept &= date <= rows.taken
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
        places = np.flatnonzero(kept).tolist()
        leases = {n: self.leases[place] for n, place in enumerate(places) if place in self.leases}
        return Stored([self.primaries[n] for n in places], [self.values[n] for n in places], leases)


def _cut(values: Sequence[bytes]) -> pa.Array:
    """
    Four binaries for each entry, one after the other: its fixed part, its owner, its key, its data. They are places in the bytes of all
    entries together, and what is taken of them is copied by Arrow: a tenth of what slices in Python take.
    """
    whole = np.frombuffer(b"".join(values), np.uint8)
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    ends = np.cumsum(sizes)
    starts = ends - sizes
    offsets = np.empty(4 * len(values) + 1, np.int32)
    offsets[0:-1:4] = starts
    offsets[1::4] = starts + ENTRY_HEAD
    offsets[2::4] = offsets[1::4] + whole[starts + OWNER_AT]
    key_sizes = whole[starts + KEY_HIGH_AT].astype(np.int32) << 8 | whole[starts + KEY_LOW_AT]
    offsets[3::4] = offsets[2::4] + (key_sizes & (IS_BYTES - 1))
    offsets[-1] = len(whole)
    return pa.Array.from_buffers(pa.binary(), 4 * len(values), [None, pa.py_buffer(offsets), pa.py_buffer(whole)])


def _leases(block: Block) -> dict[int, LeaseRow]:
    return {n: decode_lease(block.primaries[n], row) for n, row in block.leases.items()}


def _keys(stored: Stored, *, is_bytes: bool, kind: pa.DataType) -> pa.Array:
    ours = ((stored.head["key"] & IS_BYTES) != 0) == is_bytes
    if not ours.any():
        return pa.nulls(len(stored), kind)
    keys = stored.piece(KEYS)
    # A view: what a text key has is UTF-8, it was checked when it was put, and the checksum covers it.
    return (keys if ours.all() else pc.if_else(pa.array(ours), keys, pa.scalar(None, pa.binary()))).view(kind)


def _owners(stored: Stored) -> pa.Array:
    has_one = stored.head["owner"] != 0
    if not has_one.any():
        return pa.nulls(len(stored), pa.string())
    return pc.if_else(pa.array(has_one), stored.piece(OWNERS), pa.scalar(None, pa.binary())).view(pa.string())


def _status(stored: Stored) -> pa.Array:
    letters = np.where(stored.is_processing, ord("P"), ord("W")).astype(np.uint8)
    offsets = np.arange(len(stored) + 1, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(stored), [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


def _dates(stored: Stored, dates: Any, name: str, *, is_zero_null: bool = False) -> pa.Array:
    if (dates > MS_MAX).any():
        place = int(np.argmax(dates))
        raise problem(
            Invalid,
            DATE_RANGE,
            f"the {name} of {entry_key(stored.values[place])!r} is {int(dates[place])} ms, which no timestamp of Spark can be: leave "
            f"that column out (option columns), or that entry (option to)",
        )
    micros = (dates.astype(np.int64) * 1000).view("datetime64[us]")
    return pa.array(micros, _TIMESTAMP, mask=dates == 0 if is_zero_null else None)


def _counted(stored: Stored, name: str, kind: Any) -> pa.Array:
    """Versions and timeouts: those of the lease row count while there is one."""
    counts = stored.head[name].astype(kind)
    for n, row in stored.leases.items():
        counts[n] = getattr(row, name)
    return pa.array(counts)


def _of_leases(stored: Stored, name: str, kind: pa.DataType) -> pa.Array:
    if not stored.is_processing.any():
        return pa.nulls(len(stored), kind)
    found: list[Any] = [None] * len(stored)
    for n, row in stored.leases.items():
        if row.status == PROCESSING:
            value = getattr(row, name)
            found[n] = min(value, MS_MAX) * 1000 if kind == _TIMESTAMP else value
    return pa.array(found, pa.int64()).cast(kind) if kind == _TIMESTAMP else pa.array(found, kind)


_OWN: dict[str, Any] = {
    "key": lambda s: _keys(s, is_bytes=False, kind=pa.string()),
    "key_bytes": lambda s: _keys(s, is_bytes=True, kind=pa.binary()),
    "priority": lambda s: pa.array(s.place["priority"].astype(np.int16)),
    "process_date": lambda s: _dates(s, s.place["date"], "process date"),
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
