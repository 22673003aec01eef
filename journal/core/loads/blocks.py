"""
Load blocks and part files: rows on their way into a journal, as bytes. The format first (all big-endian):

    block   "JLB1" | crc u32 of what follows | msgpack [keys, data, priority, process date, insertion date, expiration, owner]
            or a ready block (journal.core.loads.sealed_blocks)
    part    "JLP2" | (length u32 | block) … | 0 u32 | rows u64 | seal 32 | crc u32 of all bytes before it

A block has columns, not rows: `data` is an array of packed msgpack values, one for each row; every other column is an array
with a value for each row, or one value that all rows have. A key is a text, bytes, or nil (a schema forms it); dates are
milliseconds or nil (the journal's now); expiration 0 is never; the owner "" is no owner.

K1  A decoder is total: any bytes give a block or Invalid. A block that was cut, or changed, is Invalid and never fewer rows.
K2  A part is whole when its end is there: its number of rows and a checksum over all of it.
K3  Rows are validated where they are loaded, not here; here a wrong value is a value like any other.
K4  The seal proves the origin of a part: an HMAC (SHA-256) of its number of rows and of the checksum so far, under a key that the
    processes of a load share; zeros in any other part. A valid seal proves that the rows were checked when they were made. It is no
    protection from a process that can write to the directory of the load, as the checksum is none.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import msgpack

from journal.core.entry import priority as priorities
from journal.core.entry.keys import UserKey
from journal.core.limits import BLOCK_BYTES_MAX
from journal.core.loads.sealed_blocks import READY, ready_columns, rows_in
from journal.errors import Invalid

_BLOCK, PART = b"JLB1", b"JLP2"
SEAL_BYTES = 32
_HEAD = struct.Struct(">4sI")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_packb, _unpackb = msgpack.packb, msgpack.unpackb


class LoadRow(NamedTuple):
    """One row of a load. `data` is packed msgpack; None leaves a date to the journal, and the key to its schema."""

    key: UserKey | None
    data: bytes
    priority: int = priorities.DEFAULT
    process_date: int | None = None
    insertion_date: int | None = None
    expiration: int = 0
    owner: str = ""


class Columns(NamedTuple):
    """The columns of a block: of all but `data` an array, or the one value that all rows have."""

    keys: Any
    data: list[Any]
    priority: Any = priorities.DEFAULT
    process_date: Any = None
    insertion_date: Any = None
    expiration: Any = 0
    owner: Any = ""

    def each(self) -> Iterator[LoadRow]:
        """The rows."""
        size = len(self.data)
        return map(LoadRow._make, zip(*(each if type(each) is list else [each] * size for each in self), strict=True))


def encode_block(rows: Iterable[Sequence[Any]]) -> bytes:
    """The block of some rows, each a LoadRow or a tuple of its values; at least a key and data."""
    made = [LoadRow(*row) for row in rows]
    columns = (
        [_shared(list(column)) for column in zip(*made, strict=True)] if made else [None, [], 0, None, None, 0, ""]
    )
    return encode_columns(columns[0], [row.data for row in made], *columns[2:])


def encode_columns(
    keys: Sequence[UserKey | None] | None,
    data: Sequence[bytes],
    priority: int | Sequence[int] = priorities.DEFAULT,
    process_date: int | Sequence[int | None] | None = None,
    insertion_date: int | Sequence[int | None] | None = None,
    expiration: int | Sequence[int] = 0,
    owner: str | Sequence[str] = "",
) -> bytes:
    """The same of columns: lists with a value for each row, or one value for all."""
    wrong = next((value for value in data if type(value) is not bytes), b"")
    if wrong != b"":
        raise Invalid(f"the data of a row is {wrong!r:.100}: it must be packed, as bytes (msgpack.packb)")
    columns = Columns(keys, list(data), priority, process_date, insertion_date, expiration, owner)
    _check_lengths(columns)
    try:
        body: bytes = _packb(columns)
    except (TypeError, ValueError, OverflowError) as e:
        raise Invalid(f"a column has a value that no row can have: {e}") from e
    if len(body) > BLOCK_BYTES_MAX:
        raise Invalid(f"the block has {len(body)} bytes, more than {BLOCK_BYTES_MAX}: make several")
    return _HEAD.pack(_BLOCK, crc32(body)) + body


def _shared(column: list[Any]) -> Any:
    """The one value of a column, or the column."""
    return column[0] if column.count(column[0]) == len(column) else column


def columns_of(block: bytes) -> Columns:
    """The columns of a block (K1)."""
    if type(block) is not bytes or len(block) < _HEAD.size:
        raise Invalid(f"{block!r:.60} is no load block: it must be what encode_block makes")
    magic, crc = _HEAD.unpack_from(block)
    if magic == READY:
        return Columns(*ready_columns(block))
    if magic != _BLOCK:
        raise Invalid(f"a load block begins with {_BLOCK!r}, not with {magic!r}: is it from a newer version?")
    body = memoryview(block)[_HEAD.size :]
    if crc32(body) != crc:
        raise Invalid("a load block does not match its checksum: it was cut or changed on its way")
    try:
        columns = Columns._make(_unpackb(body, strict_map_key=False))
    except (ValueError, TypeError, RecursionError) as e:
        raise Invalid(f"a load block does not hold seven columns: {e}") from e
    if type(columns.data) is not list:
        raise Invalid("the data of a load block is no array")
    _check_lengths(columns)
    return columns


def _check_lengths(columns: Columns) -> None:
    for name, column in zip(Columns._fields, columns, strict=True):
        if isinstance(column, (list, tuple)) and len(column) != len(columns.data):
            raise Invalid(f"a load block has {len(columns.data)} rows, but {len(column)} values of {name}")


def decode_block(block: bytes) -> list[LoadRow]:
    """The rows of a block."""
    return list(columns_of(block).each())


class PartEncoder:
    """The bytes of a part file, piece by piece; sealed when there is a key (K4)."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key
        self.rows = 0
        self.bytes = 0
        self.crc = 0

    def begin(self) -> bytes:
        """What it begins with."""
        return self._passed(PART)

    def block(self, block: bytes) -> tuple[bytes, bytes]:
        """What one more block adds, in two pieces; it is looked at first, a ready one at its outside."""
        rows = rows_in(block) if block[:4] == READY else len(columns_of(block).data)
        pieces = self._passed(_U32.pack(len(block))), self._passed(block)
        self.rows += rows
        return pieces

    def end(self) -> bytes:
        """What makes it whole (K2)."""
        head = self._passed(_U32.pack(0) + _U64.pack(self.rows))
        head += self._passed(bytes(SEAL_BYTES) if self._key is None else seal_of(self._key, self.rows, self.crc))
        return head + self._passed(_U32.pack(self.crc))

    def _passed(self, piece: bytes) -> bytes:
        self.crc = crc32(piece, self.crc)
        self.bytes += len(piece)
        return piece


def seal_of(key: bytes, rows: int, crc: int) -> bytes:
    """The seal of a part that has so many rows, and this checksum before it (K4)."""
    return hmac.digest(key, _U64.pack(rows) + _U32.pack(crc), "sha256")


def columns_in(pieces: Iterable[bytes], name: str) -> Iterator[Columns]:
    """The blocks in the bytes of a part file (K1, K2); `name` is for errors. What was given counts when it has ended."""
    source = _Pieces(pieces, name)
    magic = source.take(len(PART))
    if magic != PART:
        raise Invalid(f"{name} is no part file of a load: it begins with {magic!r}, not with {PART!r}")
    rows = 0
    while True:
        (size,) = _U32.unpack(source.take(_U32.size))
        if not size:
            break
        if size > BLOCK_BYTES_MAX + _HEAD.size:
            raise Invalid(f"{name} is damaged: it has a block of {size} bytes, more than {BLOCK_BYTES_MAX}")
        try:
            columns = columns_of(source.take(size))
        except Invalid as e:
            raise Invalid(f"{name} is damaged: {e}") from e
        rows += len(columns.data)
        yield columns
    (counted,) = _U64.unpack(source.take(_U64.size))
    source.take(SEAL_BYTES)
    crc = source.crc
    if _U32.unpack(source.take(_U32.size))[0] != crc or counted != rows:
        raise Invalid(
            f"{name} is damaged: its end tells of {counted} rows with a checksum that the {rows} before it do not have"
        )
    if source.has_more():
        raise Invalid(f"{name} is damaged: it goes on behind its end")


class _Pieces:
    """Bytes that arrive in pieces, read in pieces of other sizes."""

    def __init__(self, pieces: Iterable[bytes], name: str) -> None:
        self.crc = 0
        self._pieces = iter(pieces)
        self._name = name
        self._buffer = b""
        self._at = 0

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._buffer):
            found = [self._buffer[self._at :]]
            missing = size - len(found[0])
            while missing > 0:
                piece = next(self._pieces, b"")
                if not piece:
                    raise Invalid(f"{self._name} is cut short: it was not closed, or lost its end")
                found.append(piece)
                missing -= len(piece)
            self._buffer, self._at, end = b"".join(found), 0, size
        taken = self._buffer[self._at : end]
        self._at = end
        self.crc = crc32(taken, self.crc)
        return taken

    def has_more(self) -> bool:
        return self._at < len(self._buffer) or bool(next(self._pieces, b""))
