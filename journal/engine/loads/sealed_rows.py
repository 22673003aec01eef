"""
The rows of sealed parts (core.loads.sealed_blocks): put in order, and completed, without a Python step for each row.

Rows stay in the bytes of their parts until Arrow gathers them, in the order of work, into chunks that are the body of the load's record:
what follows is done with columns of numbers, for a chunk at a time. So a row is copied once and becomes an object only when LMDB
gets it.

B1  Only parts whose seal is right are taken: the program that checked, hashed and encoded their rows has the key of this load. All
    of a load is taken so or none of it: None says that the rows must be checked one by one (prepare), which also reports
    what is wrong.
B2  What only the load has is filled in when a chunk is made: its time, where a row has no dates of its own, and `at`, which is
    the turn in the primary key as well: rows of one priority and date keep the order of the parts, and in a part their own. The
    checksums are corrected for it (crc).
B3  There is one chunk at a time. Rows of a block come in the order of work, so a chunk takes a run of them out of each block, which
    the processor's cache can follow; rows anywhere in the parts it could not.
"""

from __future__ import annotations

import hmac
import os
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from mmap import ACCESS_READ, mmap
from typing import Any, NamedTuple
from zlib import crc32

import msgpack
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from journal.core.entry.keys import DATE_AT, PRIMARY_BYTES, SLOT_AT, SLOT_BYTES, TURN_AT
from journal.core.entry.rows import ENTRY_HEAD
from journal.core.limits import LOAD_BYTES_MAX
from journal.core.loads.blocks import PART, SEAL_BYTES, seal_of
from journal.core.loads.sealed_blocks import BY_LOAD, DUE_NOW, FRONT, HAS_MORE, READY, WRAP, shape_of
from journal.engine.loads.crc import SHIFT_MAX, Shifts, added, field_tables, shifts_for
from journal.errors import Invalid
from journal.loads import SealedPart
from journal.threads import REFUSALS

Octets = NDArray[np.uint8]
Words = NDArray[np.uint32]
Numbers = NDArray[Any]
Some = Numbers | slice
"""Which of some rows: numbers of them, or all."""

CHUNK_ROWS = 16_384
CHUNK_HEAD = 5
"""Bytes in front of a chunk's rows: the head of a msgpack array."""
ROW_BYTES = 79
"""What a row takes in a record besides its entry; a little more than it may, and as much as `preparing` counts."""
_unpackb = msgpack.unpackb
_U32 = struct.Struct(">I")
_ARRAY32 = struct.Struct(">BI")
_END = struct.Struct(f">Q{SEAL_BYTES}sI")
_DATE_AT, _TURN_AT = 2 + DATE_AT, 2 + TURN_AT
"""Where the process date and the turn are in a row's bytes. The others are counted from where its entry begins."""
_INSERTION_AT, _ACCEPTED_AT, _AT_AT, _BEHIND_AT = 4, 20, 28, 36
_DATE_ADDS, _INSERTION_ADDS = field_tables(PRIMARY_BYTES - TURN_AT + 32), field_tables(24)
_ACCEPTED_ADDS, _AT_ADDS = field_tables(8), field_tables(0) ^ field_tables(SLOT_BYTES + 32)
"""What these add to a checksum; `at` stands in two places, and so has both."""
_ALL = slice(None)
_VIEW = np.dtype([("size", "=i4"), ("front", "u1", 2), ("more", "u1", 2), ("part", "=i4"), ("at", "=i4")])
"""Where a row is, as Arrow's views have it: its size, its first four bytes, the number of its part and its place in that."""
_SHORT_VIEW = struct.Struct("=i12s")
"""A view of few bytes has them itself."""


class _Block(NamedTuple):
    """A ready block in the bytes of a part."""

    part: int
    at: int
    marks: int
    header: int
    primaries: Octets
    lengths: Numbers


class Chunk:
    """Some rows of a load, one behind the other as its record has them."""

    def __init__(self, body: Any, heads: Numbers, entries: Numbers, sizes: Numbers) -> None:
        self.body = body
        """A msgpack array (primary key, entry, …), in memory that can be written to."""
        self._numbers, self._words = _from_each_byte(body, ">u8"), _from_each_byte(body, ">u4")
        self.heads, self.entries, self.sizes = heads, entries, sizes
        """How many bytes of its row are before each entry, where it begins, and how long it is."""
        self.adds = np.zeros(len(entries), np.uint32)
        """What was filled in adds to the checksums, as of the end of `at`."""

    def put(self, rows: Some, at: int | Numbers, numbers: Numbers, adds: Words) -> None:
        """Write numbers so many bytes behind where entries begin, and note what they add to the checksums (`adds`: tables)."""
        self._numbers[self.entries[rows] + at] = numbers
        self.adds[rows] ^= added(adds, numbers)

    def turn(self, places: Numbers) -> None:
        """Write where rows get their places to their primary keys; what it adds is in `_AT_ADDS`."""
        self._numbers[self.entries - self.heads + _TURN_AT] = places

    def correct(self, shifts: Shifts) -> None:
        """Correct the checksums for what was put."""
        behind = self.sizes - _BEHIND_AT
        entries, adds = self.entries, self.adds
        if int(behind.max()) > SHIFT_MAX:
            for row in np.flatnonzero(behind > SHIFT_MAX).tolist():
                self._sum_up(row)
            small = np.flatnonzero(behind <= SHIFT_MAX)
            behind, entries, adds = behind[small], entries[small], adds[small]
        self._words[entries] ^= shifts.moved(adds, behind)

    @property
    def rows(self) -> memoryview:
        """What goes into the record."""
        return memoryview(self.body)[CHUNK_HEAD:]

    def _sum_up(self, row: int) -> None:
        """Compute the checksum of one entry."""
        at = int(self.entries[row])
        view, primary = memoryview(self.body), at - int(self.heads[row]) + 2
        crc = crc32(view[primary : primary + PRIMARY_BYTES])
        _U32.pack_into(self.body, at, crc32(view[at + 4 : at + int(self.sizes[row])], crc))


class ReadyRows:
    """
    The rows of a load.

    bytes          what they take in a record, at most
    packed_bytes   what they take as they are
    """

    def __init__(self, parts: list[mmap], blocks: list[_Block], now: int) -> None:
        counts = [len(block.lengths) for block in blocks]
        self.count = sum(counts)
        self.has_more = any(block.marks & HAS_MORE for block in blocks)
        self._heads = _repeated([FRONT + block.header for block in blocks], counts)
        self._marks = _repeated([block.marks for block in blocks], counts)
        self._primaries = np.empty((self.count, PRIMARY_BYTES), np.uint8)
        self._views = np.empty(self.count, _VIEW)
        self.entry_bytes_max = self.packed_bytes = self.bytes = 0
        is_there = np.zeros(SHIFT_MAX + 1, np.bool_)
        first = 0
        for block in blocks:  # one at a time: columns of all rows would be memory not yet paged in
            rows = slice(first, first + len(block.lengths))
            first = rows.stop
            self._primaries[rows] = block.primaries
            sizes, views = block.lengths - WRAP.size, self._views[rows]
            views["size"], views["part"] = sizes, block.part
            views["front"], views["more"] = (0xC4, PRIMARY_BYTES), block.primaries[:, :2]
            views["at"] = block.at + np.cumsum(block.lengths) - sizes
            self.packed_bytes += int(sizes.sum())
            sizes -= FRONT + block.header
            self.bytes += int(sizes.sum()) + ROW_BYTES * len(sizes)
            self.entry_bytes_max = max(self.entry_bytes_max, int(sizes.max()))
            is_there[np.minimum(sizes - _BEHIND_AT, SHIFT_MAX)] = True
        self._shifts = shifts_for(np.flatnonzero(is_there))
        self._now = np.array([now])
        if (due := _marked(self._marks, DUE_NOW)) is not None:
            self._primaries[due, DATE_AT:TURN_AT] = np.frombuffer(now.to_bytes(8, "big"), np.uint8)
        self._parts = [pa.py_buffer(part) for part in parts]

    def sort(self) -> bool:
        """Put them in order; False when two rows have one hash: a key that comes twice, most likely."""
        primaries = self._primaries
        try:
            with ThreadPoolExecutor(1) as pool:
                other = pool.submit(_by_hash, primaries)
                self._order = order_of(primaries)
                by_slot = self._by_slot = other.result()
        except REFUSALS:  # no thread: one after the other
            self._order = order_of(primaries)
            by_slot = self._by_slot = _by_hash(primaries)
        high = _column(primaries, *_HASH[0])[by_slot]
        same = np.flatnonzero(high[1:] == high[:-1])
        return not len(same) or not np.any(
            np.all(primaries[by_slot[same], SLOT_AT:] == primaries[by_slot[same + 1], SLOT_AT:], axis=1)
        )

    def slots(self) -> list[bytes]:
        """Of all rows, in order."""
        return _listed(self._primaries[self._by_slot, SLOT_AT:], SLOT_BYTES)

    def keyed(self) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Slots in order, and the primary keys in the order of these; many at a time, when `chunks` is through."""
        for start in range(0, self.count, CHUNK_ROWS):
            found = self._primaries[self._by_slot[start : start + CHUNK_ROWS]]
            yield _listed(found[:, SLOT_AT:], SLOT_BYTES), _listed(found, PRIMARY_BYTES)

    def chunks(self, at: int) -> Iterator[Chunk]:
        """The rows in the order of work, the first change of them at this place (B2)."""
        for start in range(0, self.count, CHUNK_ROWS):
            rows = self._order[start : start + CHUNK_ROWS]
            places = np.arange(at + start, at + start + len(rows))
            self._primaries[rows, TURN_AT:SLOT_AT] = places.astype(">u8").view(np.uint8).reshape(-1, 8)
            chunk = self._gathered(rows)
            chunk.turn(places)
            chunk.put(_ALL, _AT_AT, places, _AT_ADDS)
            chunk.correct(self._shifts)
            yield chunk

    def _gathered(self, rows: Numbers) -> Chunk:
        """These rows, one behind the other."""
        views = np.empty(1 + len(rows), _VIEW)
        views[:1] = np.frombuffer(_SHORT_VIEW.pack(CHUNK_HEAD, _ARRAY32.pack(0xDD, 2 * len(rows))), _VIEW)
        views[1:] = self._views[rows]
        lengths, heads = views["size"][1:].astype(np.int64), _of(self._heads, rows)
        buffers = [None, pa.py_buffer(views), *self._parts]
        body = pa.Array.from_buffers(pa.binary_view(), len(views), buffers).cast(pa.binary()).buffers()[2]
        chunk = Chunk(body, heads, CHUNK_HEAD + np.cumsum(lengths) - lengths + heads, lengths - heads)
        if (due := _marked(self._marks, DUE_NOW, rows)) is not None:
            chunk.put(due, _DATE_AT - heads[due], self._now, _DATE_ADDS)
        if (dated := _marked(self._marks, BY_LOAD, rows)) is not None:
            dates = np.minimum(_column(self._primaries[rows[dated]], DATE_AT, TURN_AT), self._now)
            chunk.put(dated, _INSERTION_AT, dates, _INSERTION_ADDS)
            chunk.put(dated, _ACCEPTED_AT, self._now, _ACCEPTED_ADDS)
        return chunk


def ready_rows(parts: Sequence[Any], entry_bytes_max: int, now: int) -> ReadyRows | None:
    """The rows of sealed parts; None when they are to be checked (B1)."""
    if not parts or not all(isinstance(part, SealedPart) for part in parts):
        return None
    try:
        if sum(os.stat(part).st_size for part in parts) > 2 * LOAD_BYTES_MAX:
            return None
        try:
            with ThreadPoolExecutor(2) as pool:
                read = list(pool.map(_read, parts))
        except REFUSALS:
            read = [_read(part) for part in parts]
    except OSError:
        return None
    blocks: list[_Block] = []
    for number, data in enumerate(read):
        found = None if data is None else _blocks(data, number)
        if found is None:
            return None
        blocks += found
    if not blocks:
        return None
    rows = ReadyRows([data for data in read if data is not None], blocks, now)
    return rows if rows.entry_bytes_max <= entry_bytes_max and rows.bytes <= LOAD_BYTES_MAX else None


def _read(part: SealedPart) -> mmap | None:
    """The bytes of a part; None when its seal is not that of its key, or its checksum is another one."""
    with open(part, "rb") as file:
        if os.fstat(file.fileno()).st_size < len(PART) + _END.size:
            return None
        # Mapped, not read: a copy of all parts would be as much memory once more.
        data = mmap(file.fileno(), 0, access=ACCESS_READ)
    end = len(data) - _END.size
    if data[: len(PART)] != PART:
        return None
    rows, seal, crc = _END.unpack_from(data, end)
    before = crc32(memoryview(data)[: end + 8])
    is_right = hmac.compare_digest(seal_of(part.key, rows, before), seal) and crc32(seal, before) == crc
    return data if is_right else None


def _blocks(data: mmap, part: int) -> list[_Block] | None:
    """The blocks of a part; None when one of them is not ready."""
    found = []
    at = len(PART)
    while size := _U32.unpack_from(data, at)[0]:
        at += 4
        if data[at : at + 4] != READY:
            return None
        try:
            shape = shape_of(memoryview(data), at, size)
        except Invalid:
            return None
        primaries = np.frombuffer(data, np.uint8, PRIMARY_BYTES * shape.rows, shape.primaries)
        lengths = np.frombuffer(data, ">u4", shape.rows, shape.lengths).astype(np.int64)
        is_whole = shape.body + int(lengths.sum()) == at + size <= len(data) - _END.size
        if not is_whole or int(lengths.min()) < WRAP.size + FRONT + shape.header + ENTRY_HEAD:
            return None
        found.append(_Block(part, shape.body, shape.marks, shape.header, primaries.reshape(-1, PRIMARY_BYTES), lengths))
        at += size
    return found


# --- columns ----------------------------------------------------------------------------------------------------------

_HASH = (SLOT_AT, SLOT_AT + 8), (SLOT_AT + 8, SLOT_AT + 16)
"""Where the halves of the hash are in a primary key."""


def _column(rows: Octets, start: int, end: int) -> NDArray[np.uint64]:
    """Eight bytes of each row as a number."""
    return np.ascontiguousarray(rows[:, start:end]).view(">u8").ravel().astype(np.uint64)


def _repeated(values: list[int], counts: list[int]) -> Numbers:
    """What each row has, where its block says it; one number when all blocks say the same."""
    return np.array(values[0]) if len(set(values)) == 1 else np.repeat(values, counts)


def _of(values: Numbers, rows: Numbers) -> Numbers:
    """What these rows have of it."""
    return values[rows] if values.ndim else np.broadcast_to(values, len(rows))


def _marked(marks: Numbers, mark: int, rows: Some = _ALL) -> Some | None:
    """Which of these rows have a mark; None when there are none."""
    if not marks.ndim:
        return _ALL if int(marks) & mark else None
    found = np.flatnonzero(marks[rows] & mark)
    return found if len(found) else None


def _from_each_byte(body: Any, kind: str) -> Numbers:
    """The numbers of this kind that begin at each byte."""
    size = np.dtype(kind).itemsize
    return np.ndarray((max(0, len(body) - size + 1),), kind, body, strides=(1,))


def order_of(primaries: Octets) -> Numbers:
    """The order of primary keys without a turn, each a row of bytes: as they are, where priority and date are the same."""
    if primaries[:, DATE_AT].any():
        return np.lexsort((_column(primaries, DATE_AT, TURN_AT), primaries[:, 0]))
    # Dates have seven bytes for two million years: with the priority they are one number.
    front = primaries[:, DATE_AT:TURN_AT].copy()
    front[:, 0] = primaries[:, 0]
    return np.argsort(_column(front, 0, 8), kind="stable")


def _by_hash(primaries: Octets) -> Numbers:
    """The order of primary keys by their hashes."""
    first, second = (_column(primaries, *column) for column in _HASH)
    order = np.argsort(first)
    found = first[order]
    same = found[1:] == found[:-1]
    if same.any():
        tied = np.zeros(len(first), np.bool_)
        tied[1:] = same
        tied[:-1] |= same
        some = order[tied]
        order[tied] = some[np.lexsort((second[some], first[some]))]
    return order


def _listed(rows: Octets, size: int) -> list[bytes]:
    found: list[bytes] = np.ascontiguousarray(rows).view(f"V{size}").ravel().tolist()
    return found
