"""
The rows of sealed parts (core.readyblocks): put in order, and made whole, without a look at each of them.

Rows stay in the bytes of their parts until they are gathered, in the order of work, into chunks that are the body of the load's record:
what follows is done with columns of numbers, for a chunk at a time. So a row is copied twice and becomes an object only when LMDB
gets it.

B1  Only parts whose seal is right are taken: their rows were checked, hashed and encoded by who has the key of this load. All of
    a load is taken so or none of it: None says that the rows must be checked one by one (preparing), which also finds words for
    what is wrong.
B2  What only the load knows is filled in when a chunk is made: its time, where a row has no dates of its own, and `at`. The
    checksums are corrected for it (checksums).
B3  There is one chunk at a time. Rows of a block come in the order of work, so a chunk takes a run of them out of each block: with rows
    anywhere in the parts the gathering of a million took three times as long, for the misses of the processor's cache.
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
from numpy.typing import NDArray

from journal.core.keys import PRIMARY_BYTES, SLOT_BYTES
from journal.core.limits import LOAD_BYTES_MAX
from journal.core.loadblocks import PART, SEAL_BYTES, seal_of
from journal.core.readyblocks import BY_LOAD, DUE_NOW, FRONT, HAS_MORE, READY, WRAP, shape_of
from journal.core.rows import ENTRY_HEAD
from journal.engine.checksums import SHIFT_MAX, Shifts, added, field_tables, shifts_for
from journal.errors import Invalid
from journal.loads import SealedPart

Octets = NDArray[np.uint8]
Numbers = NDArray[Any]

CHUNK_ROWS = 16_384
CHUNK_HEAD = 5
"""Bytes in front of a chunk's rows: the head of a msgpack array."""
ROW_BYTES = 79
"""What a row takes in a record besides its entry; a little more than it may, and as much as `preparing` counts."""
_unpackb = msgpack.unpackb
_U32 = struct.Struct(">I")
_ARRAY32 = struct.Struct(">BI")
_END = struct.Struct(f">Q{SEAL_BYTES}sI")
_DATE_AT = 3
"""Where the process date is in a row's bytes. The others are counted from where its entry begins."""
_INSERTION_AT, _ACCEPTED_AT, _AT_AT, _BEHIND_AT = 4, 20, 28, 36
_DATE_ADDS, _INSERTION_ADDS = field_tables(17 + 32), field_tables(24)
_ACCEPTED_ADDS, _AT_ADDS = field_tables(8), field_tables(0)


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

    def __init__(self, body: bytearray, heads: Numbers, entries: Numbers, sizes: Numbers) -> None:
        self.body = body
        """A msgpack array: primary key, entry, …"""
        self.octets: Octets = np.frombuffer(body, np.uint8)
        self.heads, self.entries, self.sizes = heads, entries, sizes
        """How many bytes of its row are before each entry, where it begins, and how long it is."""
        self.adds = np.zeros(len(entries), np.uint32)
        """What was filled in adds to the checksums, as of the end of `at`."""

    @property
    def rows(self) -> memoryview:
        """What goes into the record."""
        return memoryview(self.body)[CHUNK_HEAD:]

    def sum_up(self, row: int) -> None:
        """Compute the checksum of one entry."""
        at = int(self.entries[row])
        view, primary = memoryview(self.body), at - int(self.heads[row]) + 2
        crc = crc32(view[primary : primary + PRIMARY_BYTES])
        _U32.pack_into(self.body, at, crc32(view[at + 4 : at + int(self.sizes[row])], crc))


class ReadyRows:
    """The rows of a load."""

    def __init__(self, parts: list[mmap], blocks: list[_Block], now: int) -> None:
        counts = [len(block.lengths) for block in blocks]
        self.count = sum(counts)
        self.has_more = any(block.marks & HAS_MORE for block in blocks)
        wrapped = [block.at + np.cumsum(block.lengths) for block in blocks]
        self._ends = np.concatenate(wrapped)
        """Where a row ends in its part."""
        self._lengths = np.concatenate([block.lengths for block in blocks]) - WRAP.size
        self._block_of = np.repeat(np.arange(len(blocks)), counts)
        self._part_of = [block.part for block in blocks]
        self._heads = np.repeat([FRONT + block.header for block in blocks], counts)
        self._marks = np.repeat([block.marks for block in blocks], counts)
        self._primaries = np.concatenate([block.primaries for block in blocks])
        self._now = now
        due = np.flatnonzero(self._marks & DUE_NOW)
        if len(due):
            self._primaries[due, 1:9] = _octets(np.array([now]))
        sizes = self._lengths - self._heads
        self.entry_bytes_max = int(sizes.max())
        self.bytes = int(sizes.sum()) + ROW_BYTES * self.count
        """What they take in a record, at most."""
        self.packed_bytes = int(self._lengths.sum())
        self._parts = parts
        self._ranks = np.zeros(self.count, np.int64)

    def sort(self) -> bool:
        """Put them in order; False when two rows have one hash: a key that comes twice, most likely."""
        high, low = _column(self._primaries, 9, 17), _column(self._primaries, 17, 25)
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(_order, high, low)
            self._order = order_of(self._primaries)
            by_slot = self._by_slot = other.result()
        return not np.any((np.diff(high[by_slot]) == 0) & (np.diff(low[by_slot]) == 0))

    def slots(self) -> list[bytes]:
        """Of all rows, in order."""
        return _listed(self._primaries[self._by_slot, 9:], SLOT_BYTES)

    def keyed(self) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Slots in order, and the primary keys in the order of these; many at a time."""
        for start in range(0, self.count, CHUNK_ROWS):
            found = self._primaries[self._by_slot[start : start + CHUNK_ROWS]]
            yield _listed(found[:, 9:], SLOT_BYTES), _listed(found, PRIMARY_BYTES)

    def chunks(self, at: int) -> Iterator[Chunk]:
        """The rows in the order of work, the first change of them at this place (B2)."""
        behind = self._lengths - self._heads - _BEHIND_AT
        shifts = shifts_for(behind[behind <= SHIFT_MAX])
        for start in range(0, self.count, CHUNK_ROWS):
            chunk = self._gathered(self._order[start : start + CHUNK_ROWS])
            octets = _octets(np.arange(at + start, at + start + len(chunk.entries)))
            _put(chunk.octets, chunk.entries + _AT_AT, octets)
            chunk.adds ^= added(_AT_ADDS, octets)
            _correct(chunk, shifts)
            yield chunk

    def _gathered(self, rows: Numbers) -> Chunk:
        """These rows, one behind the other."""
        lengths, heads = self._lengths[rows], self._heads[rows]
        body = bytearray().join((_ARRAY32.pack(0xDD, 2 * len(rows)), *self._taken(rows)))
        entries = CHUNK_HEAD + np.cumsum(lengths) - lengths + heads
        chunk = Chunk(body, heads, entries, lengths - heads)
        now = _octets(np.array([self._now]))
        marks = self._marks[rows]
        due = np.flatnonzero(marks & DUE_NOW)
        if len(due):
            _put(chunk.octets, entries[due] - heads[due] + _DATE_AT, now)
            chunk.adds[due] ^= added(_DATE_ADDS, now)
        dated = np.flatnonzero(marks & BY_LOAD)
        if len(dated):
            dates = np.minimum(_column(self._primaries[rows[dated]], 1, 9), np.uint64(self._now))
            octets = _octets(dates)
            _put(chunk.octets, entries[dated] + _INSERTION_AT, octets)
            _put(chunk.octets, entries[dated] + _ACCEPTED_AT, now)
            chunk.adds[dated] ^= added(_INSERTION_ADDS, octets) ^ added(_ACCEPTED_ADDS, now)
        return chunk

    def _taken(self, rows: Numbers) -> list[bytes]:
        """The bytes of these rows: a run of them out of each block (B3), then each in its place."""
        found: list[bytes] = []
        sorted_rows = np.sort(rows)
        of = self._block_of[sorted_rows]
        breaks = np.flatnonzero((np.diff(sorted_rows) != 1) | (np.diff(of) != 0))
        firsts, lasts = np.concatenate(([0], breaks + 1)), np.concatenate((breaks, [len(rows) - 1]))
        begins = self._ends[sorted_rows[firsts]] - self._lengths[sorted_rows[firsts]] - WRAP.size
        counts, ends = lasts - firsts + 1, self._ends[sorted_rows[lasts]]
        for block, count, begin, end in zip(
            of[firsts].tolist(), counts.tolist(), begins.tolist(), ends.tolist(), strict=True
        ):
            found += _unpackb(_ARRAY32.pack(0xDD, count) + self._parts[self._part_of[block]][begin:end])
        self._ranks[sorted_rows] = np.arange(len(rows))
        return [found[rank] for rank in self._ranks[rows].tolist()]


def ready_rows(parts: Sequence[Any], entry_bytes_max: int, now: int) -> ReadyRows | None:
    """The rows of sealed parts; None when they are to be checked (B1)."""
    if not parts or not all(isinstance(part, SealedPart) for part in parts):
        return None
    try:
        if sum(os.stat(part).st_size for part in parts) > 2 * LOAD_BYTES_MAX:
            return None
        with ThreadPoolExecutor(2) as pool:
            read = list(pool.map(_read, parts))
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

_COLUMNS = ((0, 1), (1, 9), (9, 17), (17, 25))
"""Of a primary key: priority, process date, and the halves of the hash."""


def _column(rows: Octets, start: int, end: int) -> NDArray[np.uint64]:
    """Some bytes of each row as a number."""
    if end - start == 1:
        return rows[:, start].astype(np.uint64)
    return np.ascontiguousarray(rows[:, start:end]).view(">u8").ravel().astype(np.uint64)


def _octets(numbers: Numbers) -> Octets:
    """The bytes of numbers, in rows of 8."""
    return numbers.astype(">u8").view(np.uint8).reshape(-1, 8)


def _put(into: Octets, places: Numbers, octets: Octets) -> None:
    """Write bytes to these places, where zeros are now."""
    for place in range(octets.shape[1]):
        column = octets[:, place]
        if column.any():
            into[places + place] = column


def order_of(primaries: Octets) -> Numbers:
    """The order of primary keys, each a row of bytes."""
    priority, date, high, low = (_column(primaries, start, end) for start, end in _COLUMNS)
    if int(date.max()) < 1 << 56:
        return _order(priority << np.uint64(56) | date, high, low)
    return _order(priority, date, high, low)


def _order(first: NDArray[np.uint64], *others: NDArray[np.uint64]) -> Numbers:
    """The order of rows by some columns."""
    order = np.argsort(first)
    found = first[order]
    same = found[1:] == found[:-1]
    if others and same.any():
        if same.all():
            return _order(*others)
        tied = np.zeros(len(first), np.bool_)
        tied[1:] = same
        tied[:-1] |= same
        some = order[tied]
        order[tied] = some[np.lexsort((*(column[some] for column in reversed(others)), first[some]))]
    return order


def _listed(rows: Octets, size: int) -> list[bytes]:
    found: list[bytes] = np.ascontiguousarray(rows).view(f"V{size}").ravel().tolist()
    return found


def _correct(chunk: Chunk, shifts: Shifts) -> None:
    """Correct the checksums for what was filled in."""
    behind = chunk.sizes - _BEHIND_AT
    entries, adds = chunk.entries, chunk.adds
    if int(behind.max()) > SHIFT_MAX:
        for row in np.flatnonzero(behind > SHIFT_MAX).tolist():
            chunk.sum_up(row)
        small = np.flatnonzero(behind <= SHIFT_MAX)
        behind, entries, adds = behind[small], entries[small], adds[small]
    places = entries[:, None] + np.arange(4)
    sums = chunk.octets[places].view(">u4").ravel() ^ shifts.moved(adds, behind)
    chunk.octets[places] = sums.astype(">u4").view(np.uint8).reshape(-1, 4)
