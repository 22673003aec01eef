"""
The rows of a batch as they will stand in the record of their load (journal.core.loads.sealed_blocks), made by the task that has them.

Tasks work side by side and the commit works alone, so what can be done here is done here: checking, packing, hashing, encoding and the
checksums. It is done with columns; a row is touched by two calls only, for its hash and for its checksum.

Q1  Every row of a ready block is as the journal would accept it, without a schema. What is wrong, or may be, or is not the same
    for all rows of a batch (some with a date and some without), makes no ready block: `ready_of` is None, and the batch takes the path
    that checks each row (rows) and reports what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import msgpack
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute as pc

from journal.core.entry import priority as priorities
from journal.core.entry.keys import DATE_AT, PRIMARY_BYTES, SLOT_AT, TURN_AT, murmur
from journal.core.entry.rows import ENTRY_HEAD
from journal.core.limits import KEY_BYTES_MAX, OWNER_BYTES_MAX, PRIORITY_MAX
from journal.core.loads.sealed_blocks import BY_LOAD, DUE_NOW, FRONT, HAS_MORE, HEADERS, WRAP, WRAPPED, encode_ready
from journal.engine.loads.crc import SHIFT_MAX, added, field_tables, shifts_for
from journal.engine.loads.sealed_rows import order_of
from journal.errors import Invalid
from spark_export.columns.arrow_values import milliseconds
from spark_export.columns.mapping import ColumnMapping, is_text
from spark_export.columns.msgpack_columns import binary_of, packed_fields
from spark_export.loads.rows import RefusedRow, whole_data

Octets = NDArray[np.uint8]
Numbers = NDArray[Any]
_NIL = msgpack.packb(None)
_IS_BYTES = 0x8000
_FIXED = PRIMARY_BYTES + ENTRY_HEAD - 4
"""How many bytes of an entry, and of its primary key, are numbers."""
_EMPTY = np.uint32(crc32(bytes(_FIXED)))
_PRIORITY_ADDS = field_tables(_FIXED - 1)[7]
_ADDS = [field_tables(behind) for behind in (65, 49, 41, 32, 24, 16, 8, 0)]
"""For the process date, the halves of the hash, and the numbers of the entry, eight bytes at a time."""
_VERSION = 1 << 32
"""The version of a new entry, in the last of these; what follows it are the sizes of owner and key."""


class _Unusual(Exception):
    """There is no ready block of this batch (Q1)."""


class SealedRows(NamedTuple):
    """A batch that is ready; what rows.Made is of others."""

    size: int
    encoded: bytes
    rejected: tuple[RefusedRow, ...] = ()

    def block(self) -> bytes:
        """The load block."""
        return self.encoded


def ready_of(batch: pa.RecordBatch, columns: ColumnMapping, due: int | None = None) -> SealedRows | None:
    """The ready block of a batch, if it has one (Q1). `due` as for rows.rows_of."""
    try:
        return SealedRows(batch.num_rows, _encoded(batch, columns, due))
    except (_Unusual, Invalid, pa.ArrowInvalid):
        return None


def _encoded(batch: pa.RecordBatch, columns: ColumnMapping, due: int | None) -> bytes:
    rows = batch.num_rows
    _check(rows > 0)
    keys, bytes_mark = _keys(batch, columns)
    key_sizes = _sizes(keys)
    _check(key_sizes.min() > 0 and key_sizes.max() <= KEY_BYTES_MAX)
    priority = _numbers(batch, columns.priority, priorities.DEFAULT)
    expiration = _numbers(batch, columns.expiration, 0)
    insertion, date = _dates(batch, columns.insertion_date), _dates(batch, columns.process_date)
    if date is None and due is not None:
        date = np.full(rows, due)
    _check(priority.min() >= 0 and priority.max() <= PRIORITY_MAX and expiration.min() >= 0)
    if insertion is not None:
        _check(date is not None and insertion.min() >= 0 and not np.any(date < insertion))
    _check(date is None or date.min() >= 0)
    owners, owner_sizes = _owners(batch, columns)
    data = _data(batch, columns)
    sizes = ENTRY_HEAD + key_sizes + owner_sizes + sum(map(_sizes, data))

    hashes = np.frombuffer(b"".join(map(murmur, keys.to_pylist())), ">u8").reshape(-1, 2)
    primaries = np.zeros((rows, PRIMARY_BYTES), np.uint8)
    primaries[:, 0] = priority
    if date is not None:
        primaries[:, DATE_AT:TURN_AT] = _octets(date)
    primaries[:, SLOT_AT : SLOT_AT + 16] = hashes.view(np.uint8).reshape(-1, 16)

    header = next(size for size, limit in ((2, 1 << 8), (3, 1 << 16), (5, 1 << 32)) if sizes.max() < limit)
    entry = WRAP.size + FRONT + header
    heads = np.zeros((rows, entry + ENTRY_HEAD), np.uint8)
    heads[:, 0] = WRAPPED
    heads[:, 1:5] = _octets(sizes + (FRONT + header))[:, 4:]
    heads[:, 5:7] = 0xC4, PRIMARY_BYTES
    heads[:, 7 : 7 + PRIMARY_BYTES] = primaries
    heads[:, entry - header] = HEADERS[header][0]
    heads[:, entry - header + 1 : entry] = _octets(sizes)[:, 9 - header :]
    last = _VERSION | owner_sizes << 16 | key_sizes | bytes_mark
    numbers = date, *hashes.T, insertion, expiration if expiration.any() else None, insertion, None, last
    body = heads[:, entry + 4 :]
    for place, number in enumerate(numbers[3:]):
        if number is not None:
            body[:, 8 * place : 8 * place + 8] = _octets(number)
    tails = pc.binary_join_element_wise(*owners, keys, *data, b"")
    sums = _sums(priority, numbers, tails.to_pylist(), sizes - ENTRY_HEAD)
    heads[:, entry : entry + 4] = sums.astype(">u4").view(np.uint8).reshape(-1, 4)

    order = order_of(primaries)
    whole = pc.binary_join_element_wise(binary_of(heads, np.full(rows, heads.shape[1])), tails, b"").take(order)
    lengths = sizes[order] + entry
    all_rows = memoryview(whole.buffers()[2])[: int(lengths.sum())]

    marks = (BY_LOAD if insertion is None else 0) | (DUE_NOW if date is None else 0)
    marks |= HAS_MORE if owner_sizes.any() or expiration.any() else 0
    places = order.astype(">u4").tobytes()
    return encode_ready(
        rows, marks, header, primaries[order].tobytes(), lengths.astype(">u4").tobytes(), places, all_rows
    )


def _sums(
    priority: Numbers, numbers: Sequence[Numbers | None], tails: list[bytes], behind: Numbers
) -> NDArray[np.uint32]:
    """The checksums of entries: of a primary key, the numbers of the entry, and what comes behind them."""
    fixed = _EMPTY ^ _PRIORITY_ADDS[priority]
    for adds, number in zip(_ADDS, numbers, strict=True):
        if number is not None:
            fixed ^= added(adds, number)
    if behind.max() > SHIFT_MAX:
        return np.fromiter(map(crc32, tails, fixed.tolist()), np.uint32, len(tails))
    found = np.fromiter(map(crc32, tails), np.uint32, len(tails))
    return found ^ shifts_for(behind).moved(fixed, behind)


# --- columns ----------------------------------------------------------------------------------------------------------


def _check(is_usual: Any) -> None:
    if not is_usual:
        raise _Unusual


def _keys(batch: pa.RecordBatch, columns: ColumnMapping) -> tuple[pa.Array, int]:
    """The keys, as bytes, and the mark of those that are no texts."""
    found = [batch.column(name) for name in (columns.key, columns.key_bytes) if name is not None]
    found = [column for column in found if column.null_count < len(column)]
    _check(len(found) == 1 and not found[0].null_count)
    return _as_bytes(found[0]), 0 if is_text(found[0].type) else _IS_BYTES


def _as_bytes(column: pa.Array) -> pa.Array:
    column.validate(full=True)
    return column.cast(pa.binary())


def _sizes(column: pa.Array) -> Numbers:
    found: Numbers = pc.binary_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _octets(numbers: Numbers) -> Octets:
    return numbers.astype(">u8").view(np.uint8).reshape(-1, 8)


def _numbers(batch: pa.RecordBatch, name: str | None, default: int) -> Numbers:
    """Priorities, or dates of which a null says something."""
    column = None if name is None else batch.column(name)
    if column is None or column.null_count == len(column):
        return np.full(batch.num_rows, default)
    filled: Numbers = pc.fill_null(_whole(column), default).to_numpy(zero_copy_only=False)
    return filled


def _whole(column: pa.Array) -> pa.Array:
    return milliseconds(column).cast(pa.int64())


def _dates(batch: pa.RecordBatch, name: str | None) -> Numbers | None:
    """The dates of all rows; None when no row has one."""
    column = None if name is None else batch.column(name)
    if column is None or column.null_count == len(column):
        return None
    _check(not column.null_count)
    dates: Numbers = _whole(column).to_numpy(zero_copy_only=False)
    return dates


def _owners(batch: pa.RecordBatch, columns: ColumnMapping) -> tuple[list[pa.Array], Numbers]:
    column = None if columns.owner is None else batch.column(columns.owner)
    if column is None or column.null_count == len(column):
        return [], np.zeros(batch.num_rows, np.int64)
    owners = _as_bytes(pc.fill_null(column.cast(pa.string()), ""))
    sizes = _sizes(owners)
    _check(sizes.max() <= OWNER_BYTES_MAX)
    return [owners], sizes


def _data(batch: pa.RecordBatch, columns: ColumnMapping) -> list[pa.Array]:
    """Columns that, joined, are the packed data."""
    if columns.data is None:
        if columns.fields:
            return packed_fields(batch, columns.fields)
        return [pa.array([_NIL] * batch.num_rows, pa.binary())]
    _check(not columns.fields)
    bad: dict[int, str] = {}
    found = whole_data(batch.column(columns.data), columns.data_format, bad)
    _check(not bad and all(found))
    try:
        for one in found:
            msgpack.unpackb(one, strict_map_key=False)
    except (TypeError, ValueError, OverflowError, RecursionError) as e:
        raise _Unusual from e
    return [pa.array(found, pa.binary())]
