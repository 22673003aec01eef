"""
The leaf pages of a copy of rows, many at a time, as arrays: what one task reads of a snapshot, without a Python object for each row.

A copy is an LMDB file that is never written to again, so its pages can be read as they lie there (docs/DATA.md has their format):

    page    number u64 | - u16 | flags u16 | lower u16 | upper u16 | places of its nodes u16 each, in the order of their keys
    node    size of the value u32 | flags u16 | size of the key u16 | key | value, or the number of the page where it begins
    branch  the same, with the number of a page (48 bits) in the place of the value's size and the flags

V1  Nothing that a page says is trusted: places and sizes are compared with where the page ends, page numbers with the pages, keys with the
    ones before them. What does not fit is StoreDamaged. Nothing is mapped, so that a file that is cut short meanwhile is an error, not a
    signal.
V2  Rows come in the order of their keys, and only those within the ranges, each once.

Pages that are wrong and look right are what the digest of the file is for, which is compared before (journal.engine.snapshots.reader C1).
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from journal.core.snapshot_blocks import KeyRange
from journal.engine.files.lmdb import page_bytes_of
from journal.engine.files.posix import open_file, storage_error
from journal.errors import StoreDamaged

CHUNK_BYTES = 2 << 20
"""Pages of so many bytes are read at a time."""
PAD = 64
"""Bytes behind the pages of a chunk, so that what begins on the last one can be looked at in fixed pieces."""
DEPTH_MAX = 32
_META = struct.Struct("<16xII16x48x4xHH32xQQQ")
"""Of a first page: magic, version, the main database's flags, depth and root, the last page, the transaction."""
_DATABASE = struct.Struct("<4xHH32xQ")
"""Of a sub-database: flags, depth, root."""
_MAGIC = 0xBEEFC0DE
_HEAD = 16
_NODE = 8
_BRANCH, _LEAF, _OVERFLOW = 1, 2, 4
_BIG, _SUB = 1, 2
_NONE = (1 << 64) - 1
_FRONT = np.dtype([("a", ">u8"), ("b", ">u8"), ("c", ">u8")])
"""What is compared of keys at first; those of entries differ there."""
_BEHIND = b"\xff" * 512
"""Behind all keys."""


@dataclass(frozen=True, slots=True)
class LeafRows:
    """Rows of some leaf pages: where their keys and values are. An array each."""

    raw: Any
    """The bytes of the pages, and PAD more."""
    keys: Any
    """Where each key begins in them."""
    values: Any
    """Where each value begins; of a large one the number of the page on which it is."""
    sizes: Any
    """How many bytes each value has."""
    is_large: Any
    """Whether the value has pages of its own."""

    def __len__(self) -> int:
        return len(self.keys)

    def only(self, which: Any) -> LeafRows:
        """Some of them."""
        return LeafRows(self.raw, self.keys[which], self.values[which], self.sizes[which], self.is_large[which])


class Leaves:
    """Reads the pages of one file. A context manager."""

    def __init__(self, path: str, key_bytes: int) -> None:
        self.path = path
        self._key_bytes = key_bytes
        self._fd = open_file(Path(path), os.O_RDONLY)
        try:
            self._page_bytes = page_bytes_of(self._fd, path)
            self._chunk = max(1, CHUNK_BYTES // self._page_bytes)
            self._pages = os.fstat(self._fd).st_size // self._page_bytes
            self._databases = self._found()
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Leaves:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def rows(self, database: bytes, ranges: Sequence[KeyRange]) -> Iterator[LeafRows]:
        """The rows of a sub-database within ranges that are in order (V2), those of some pages at a time."""
        if database not in self._databases:
            raise self.damaged(f"it has no {database.decode()}")
        depth, root = self._databases[database]
        if root == _NONE:
            return
        chunk: list[int] = []
        cuts: dict[int, KeyRange] = {}
        left = self._pages + 2 * len(ranges)
        last = b""
        for low, high in ranges:
            for numbers, is_edge in self._below(root, depth, low, high):
                if is_edge:
                    cuts[len(chunk)] = low, high
                chunk += numbers
                left -= len(numbers)
                if left < 0:
                    raise self.damaged("its pages go round in a circle")
                while len(chunk) >= self._chunk:
                    own = {n: cut for n, cut in cuts.items() if n < self._chunk}
                    last = yield from self._checked(chunk[: self._chunk], own, last)
                    del chunk[: self._chunk]
                    cuts = {n - self._chunk: cut for n, cut in cuts.items() if n >= self._chunk}
        if chunk:
            yield from self._checked(chunk, cuts, last)

    def large(self, number: int, into: Any) -> None:
        """Read a value from the pages that begin with this number, with the head of the first of them in front, into a view of bytes."""
        self._read(number, into)
        found, flags, pages = struct.unpack_from("<Q2xHI", into)
        if (found, flags) != (number, _OVERFLOW) or pages * self._page_bytes < len(into):
            raise self.damaged(f"page {number} is not the one of a large value")

    # --- the tree ---------------------------------------------------------------------------------------------------------

    def _found(self) -> dict[bytes, tuple[int, int]]:
        """Depth and root of the sub-databases."""
        best: tuple[int, int, int] | None = None
        for number in (0, 1):
            magic, version, _, depth, root, _, commit = _META.unpack_from(self._page(number))
            if magic == _MAGIC and version & 0xFFFFFF == 1 and (best is None or commit > best[0]):
                best = commit, depth, root
        if best is None:
            raise self.damaged("it has no valid first page")
        _, depth, root = best
        databases: dict[bytes, tuple[int, int]] = {}
        if root == _NONE:
            return databases
        for numbers, _ in self._below(root, depth, b"", _BEHIND):
            for number in numbers:
                page = self._page(number)
                for at in self._nodes(page, number, _LEAF).tolist():
                    size, flags, key_bytes = struct.unpack_from("<IHH", page, at)
                    value_at = at + _NODE + key_bytes
                    if flags == _SUB and size == _DATABASE.size and value_at + size <= self._page_bytes:
                        _, below, top = _DATABASE.unpack_from(page, value_at)
                        databases[page[at + _NODE : value_at]] = below, top
        return databases

    def _below(
        self, number: int, depth: int, low: bytes, high: bytes, is_first: bool = True, is_last: bool = True
    ) -> Iterator[tuple[list[int], bool]]:
        """
        The leaf pages with keys of a range, in order, some at a time; and whether it is one that can have other keys, too.

        is_first, is_last  whether keys below the range, or above it, can be here
        """
        if not 1 <= depth <= DEPTH_MAX:
            raise self.damaged(f"page {number} is at depth {depth}")
        if depth == 1:
            yield [number], is_first or is_last
            return
        page = self._page(number)
        places = self._nodes(page, number, _BRANCH)
        first, behind = 0, len(places)
        if behind < 2:
            raise self.damaged(f"branch page {number} has {behind} nodes")
        if is_first or is_last:
            keys = [b"", *(self._key(page, at) for at in places[1:].tolist())]
            first = bisect_right(keys, low) - 1
            behind = max(first + 1, bisect_left(keys, high))
        halves = np.frombuffer(page, "<u2").astype(np.int64)
        at = places[first:behind] >> 1
        children = (halves[at] | halves[at + 1] << 16 | halves[at + 2] << 32).tolist()
        if depth == 2 and not is_first and not is_last:
            yield children, False
            return
        for n, child in enumerate(children):
            yield from self._below(child, depth - 1, low, high, is_first and n == 0, is_last and n == len(children) - 1)

    def _nodes(self, page: bytes, number: int, kind: int) -> Any:
        """Where the nodes of a page are, an array."""
        found, flags, lower, upper = struct.unpack_from("<Q2xHHH", page)
        if (found, flags) != (number, kind) or lower < _HEAD or lower & 1 or not lower <= upper <= self._page_bytes:
            raise self.damaged(
                f"page {number} is not the {'leaf' if kind == _LEAF else 'branch'} page that it should be"
            )
        places = np.frombuffer(page, "<u2", (lower - _HEAD) // 2, _HEAD).astype(np.int64)
        if ((places < upper) | (places > self._page_bytes - _NODE) | (places & 1 != 0)).any():
            raise self.damaged(f"a node of page {number} is not on it")
        return places

    def _key(self, page: bytes, at: int) -> bytes:
        end = at + _NODE + int.from_bytes(page[at + 6 : at + 8], "little")
        if end > self._page_bytes:
            raise self.damaged("a key goes on behind its page")
        return page[at + _NODE : end]

    # --- the leaves -------------------------------------------------------------------------------------------------------

    def _checked(self, chunk: list[int], cuts: dict[int, KeyRange], last: bytes) -> Generator[LeafRows, None, bytes]:
        """The rows of a chunk, in order (V1); returns its last key."""
        rows = self._parsed(chunk, cuts)
        if len(rows):
            first = _bytes_at(rows.raw, rows.keys[0], self._key_bytes)
            if first <= last or not self._is_ordered(rows):
                raise self.damaged(f"keys near {first.hex()} are not in order")
            yield rows
            last = _bytes_at(rows.raw, rows.keys[-1], self._key_bytes)
        return last

    def _parsed(self, chunk: list[int], cuts: dict[int, KeyRange]) -> LeafRows:
        page_bytes = self._page_bytes
        numbers = np.array(chunk, np.uint64)
        raw = self._pages_of(numbers)
        halves = raw.view("<u2")
        heads = halves[: len(chunk) * page_bytes // 2].reshape(len(chunk), page_bytes // 2)
        lower, upper = heads[:, 6].astype(np.int64), heads[:, 7].astype(np.int64)
        own = raw.view("<u8")[: len(chunk) * page_bytes // 8 : page_bytes // 8]
        are_leaves = (own == numbers) & (heads[:, 5] == _LEAF)
        if not (are_leaves & (lower > _HEAD) & (lower & 1 == 0) & (lower <= upper) & (upper <= page_bytes)).all():
            raise self.damaged("a page is not the leaf page that it should be")
        counts = (lower - _HEAD) >> 1
        most = int(counts.max())
        is_used = np.arange(most) < counts[:, None]
        places = heads[:, 8 : 8 + most][is_used].astype(np.int64)
        begins = np.repeat(np.arange(len(chunk), dtype=np.int64) * page_bytes, counts)
        if (places < np.repeat(upper, counts)).any() or (places > page_bytes - _NODE).any() or (places & 1).any():
            raise self.damaged("a node is not on its page")
        at = begins + places
        half = at >> 1
        sizes = halves[half].astype(np.int64) | (halves[half + 1].astype(np.int64) << 16)
        flags = halves[half + 2]
        is_large = flags == _BIG
        on_page = np.where(is_large, 8, sizes) if is_large.any() else sizes
        if (halves[half + 3] != self._key_bytes).any() or (flags > _BIG).any():
            raise self.damaged("a node is not one of a row")
        keys = at + _NODE
        values = keys + self._key_bytes
        if (places + (_NODE + self._key_bytes) + on_page > page_bytes).any():
            raise self.damaged("a value goes on behind its page")
        if is_large.any():
            quarters = (values[is_large] >> 1)[:, None] + np.arange(4)
            values[is_large] = firsts = halves[quarters].view("<i8")[:, 0]
            room = self._pages - (sizes[is_large] + (_HEAD + page_bytes - 1)) // page_bytes
            if (firsts < 0).any() or (firsts > room).any():
                raise self.damaged("a large value is behind the end of the file")
        rows = LeafRows(raw, keys, values, sizes, is_large)
        return self._cut(rows, cuts, counts)

    def _pages_of(self, numbers: Any) -> Any:
        """The bytes of pages, runs of them at once."""
        if (numbers >= self._pages).any():
            raise self.damaged("a page is behind the end of the file")
        raw = np.empty(len(numbers) * self._page_bytes + PAD, np.uint8)
        raw[-PAD:] = 0
        view = memoryview(raw.data)
        ends = [*(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
        start = 0
        for end in ends:
            self._read(int(numbers[start]), view[start * self._page_bytes : end * self._page_bytes])
            start = end
        return raw

    def _cut(self, rows: LeafRows, cuts: dict[int, KeyRange], counts: Any) -> LeafRows:
        """Without the keys of pages at the ends of ranges that are not within them."""
        if not cuts:
            return rows
        is_kept = np.ones(len(rows), bool)
        ends = np.cumsum(counts).tolist()
        for n, (low, high) in cuts.items():
            end = ends[n]
            start = end - int(counts[n])
            keys = [_bytes_at(rows.raw, at, self._key_bytes) for at in rows.keys[start:end].tolist()]
            is_kept[start:end] = [low <= key < high for key in keys]
        return rows if is_kept.all() else rows.only(is_kept)

    def _is_ordered(self, rows: LeafRows) -> bool:
        """Whether every key is above the one before it; by their first 24 bytes, and all where these are the same."""
        fronts = fixed(rows.raw, _FRONT, rows.keys)
        is_above = np.zeros(max(len(rows.keys) - 1, 0), np.bool_)
        for name in reversed(_FRONT.names or ()):
            column = fronts[name].astype(np.uint64)
            is_above = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & is_above)
        for n in np.flatnonzero(~is_above).tolist():
            one, other = (_bytes_at(rows.raw, rows.keys[k], self._key_bytes) for k in (n, n + 1))
            if one >= other:
                return False
        return True

    # --- the file ---------------------------------------------------------------------------------------------------------

    def _page(self, number: int) -> bytes:
        page = bytearray(self._page_bytes)
        self._read(number, memoryview(page))
        return bytes(page)

    def _read(self, number: int, into: Any) -> None:
        """Fill a view from the beginning of a page on (V1)."""
        done = 0
        try:
            while done < len(into):
                got = os.preadv(self._fd, [into[done:]], number * self._page_bytes + done)
                if not got:
                    raise self.damaged(f"it ends before page {number} does")
                done += got
        except (OSError, OverflowError) as e:
            if isinstance(e, OSError):
                raise storage_error(e, f"cannot read {self.path}") from e
            raise self.damaged(f"page {number} is behind the end of the file") from e

    def damaged(self, what: str) -> StoreDamaged:
        return StoreDamaged(
            f"{self.path} is damaged: {what}. Take another snapshot; if it is so again, run `journal check`"
        )


def fixed(raw: Any, kind: Any, places: Any) -> Any:
    """What is at these places, as an array of this type."""
    # Taken as plain bytes: numpy copies structures field by field, which takes ten times as long.
    size = kind.itemsize
    return np.ndarray((len(raw) - size + 1,), f"V{size}", raw, strides=(1,))[places].view(kind)


def _bytes_at(raw: Any, at: int, size: int) -> bytes:
    found: bytes = raw[at : at + size].tobytes()
    return found
