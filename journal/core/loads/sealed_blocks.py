"""
Ready blocks: rows of a load as they will stand in its record, made where the rows are. The format first (all big-endian):

    block   "JLR2" | crc u32 of what follows | rows u32 | marks u8 | header u8 | primary keys, 34 bytes each
            | lengths u32 of the rows | places u32 | rows
    row     c6 | length u32 of what follows | c4 22 | primary key 34 | msgpack header of bytes, 2, 3 or 5 bytes long as `header` says
            | entry (journal.core.entry.rows)

Rows are in the order of their priorities and process dates, and as they were given where these are the same; `places` says
which of those that were given each of them is. An entry lacks what only the load knows: `at` is 0, and the turn in the
primary key; with the mark BY_LOAD the insertion and the accepted date are 0, and with DUE_NOW the process date
in the primary key as well. Its checksum is right for these zeros, so code that fills them in can correct it without reading the rest.

Y1  A decoder is total: any bytes give rows or Invalid. What `ready_columns` gives is what a plain block (blocks) would have
    said of the same rows: hashes and checksums are not trusted, the loader computes them again.
Y2  A loader that trusts them as they are must know where they come from: the seal of a part proves that (blocks K4).
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple
from zlib import crc32

from journal.core.entry.keys import PRIMARY_BYTES, unpack_place
from journal.core.entry.rows import ENTRY_HEAD
from journal.core.limits import BLOCK_BYTES_MAX
from journal.errors import Invalid

READY = b"JLR2"
HEAD = struct.Struct(">4sIIBB")
BY_LOAD, DUE_NOW, HAS_MORE = 1, 2, 4
"""The marks: dated by the load; due when it is made; some rows expire or have an owner."""
WRAP = struct.Struct(">BI")
"""What is before a row's bytes: they are one msgpack value."""
WRAPPED = 0xC6
HEADERS = {2: b"\xc4", 3: b"\xc5", 5: b"\xc6"}
"""The first byte of a header of bytes by its length."""
FRONT = 2 + PRIMARY_BYTES
"""Where the header of the entry begins in a row's bytes, without what is before them."""
_ENTRY = struct.Struct(">4xQQQ8x4xxBH")
_IS_BYTES = 0x8000


class Shape(NamedTuple):
    """Where the parts of a ready block are."""

    rows: int
    marks: int
    header: int
    primaries: int
    lengths: int
    places: int
    body: int


def shape_of(block: bytes | memoryview, at: int = 0, size: int | None = None) -> Shape:
    """Where things are in the block at this place of some bytes; Invalid when they cannot be there."""
    end = len(block) if size is None else at + size
    if end - at < HEAD.size:
        raise Invalid("a ready block is cut short")
    _, _, rows, marks, header = HEAD.unpack_from(block, at)
    primaries = at + HEAD.size
    lengths = primaries + PRIMARY_BYTES * rows
    places = lengths + 4 * rows
    body = places + 4 * rows
    if not rows or body > end or header not in HEADERS or marks > 7:
        raise Invalid(f"a ready block has {end - at} bytes, which cannot hold its {rows} rows")
    return Shape(rows, marks, header, primaries, lengths, places, body)


def encode_ready(
    rows: int, marks: int, header: int, primaries: bytes, lengths: bytes, places: bytes, body: bytes | memoryview
) -> bytes:
    """The block of rows that are made already; the columns are packed as the format says."""
    size = len(primaries) + len(lengths) + len(places) + len(body)
    if size > BLOCK_BYTES_MAX - HEAD.size:
        raise Invalid(f"the block has {size} bytes, more than {BLOCK_BYTES_MAX}: make several")
    crc = crc32(struct.pack(">IBB", rows, marks, header))
    for piece in (primaries, lengths, places, body):
        crc = crc32(piece, crc)
    return b"".join((HEAD.pack(READY, crc, rows, marks, header), primaries, lengths, places, body))


def rows_in(block: bytes) -> int:
    """How many rows a ready block has."""
    return shape_of(block).rows


def ready_columns(block: bytes) -> tuple[list[Any], list[Any], list[int], Any, Any, list[int], list[str]]:
    """The columns of a ready block, as a plain one has them (Y1)."""
    shape = shape_of(block)
    if crc32(memoryview(block)[8:]) != HEAD.unpack_from(block)[1]:
        raise Invalid("a ready block does not match its checksum: it was cut or changed on its way")
    lengths = struct.unpack_from(f">{shape.rows}I", block, shape.lengths)
    if shape.body + sum(lengths) != len(block) or min(lengths) < WRAP.size + FRONT + shape.header + ENTRY_HEAD:
        raise Invalid("a ready block has rows of other lengths than it says")
    places = struct.unpack_from(f">{shape.rows}I", block, shape.places)
    if sorted(places) != list(range(shape.rows)):
        raise Invalid("a ready block does not say which rows it has")
    try:
        rows = [row for _, row in sorted(zip(places, _rows(block, shape, lengths), strict=True))]
    except UnicodeDecodeError as e:
        raise Invalid(f"a ready block has a text that is none: {e}") from e
    keys, data, priorities, dates, insertions, expirations, owners = map(list, zip(*rows, strict=True))
    return (
        keys,
        data,
        priorities,
        None if shape.marks & DUE_NOW else dates,
        None if shape.marks & BY_LOAD else insertions,
        expirations,
        owners,
    )


def _rows(block: bytes, shape: Shape, lengths: tuple[int, ...]) -> list[tuple[Any, ...]]:
    found = []
    at, skip = shape.body, WRAP.size + FRONT + shape.header
    for length in lengths:
        priority, date = unpack_place(block, at + WRAP.size + 2)
        insertion, expiration, _, owner_size, key_size = _ENTRY.unpack_from(block, at + skip)
        start = at + skip + ENTRY_HEAD
        middle = start + owner_size
        end, at = middle + (key_size & ~_IS_BYTES), at + length
        if end > at:
            raise Invalid("a ready block has a row that is shorter than its owner and its key")
        raw = block[middle:end]
        key = raw if key_size & _IS_BYTES else raw.decode()
        owner = block[start:middle].decode()
        found.append((key, block[end:at], priority, date, insertion, expiration, owner))
    return found
