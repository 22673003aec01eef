"""
Entries of a snapshot as arrays: those of many rows in one piece of memory, verified.

    from a copy that this machine has    its leaf pages, as they lie in the file (spark_export.columns.lmdb_pages); no Python object
                                         for a row
    from a block                         what a daemon sends, or several generations as one (journal.core.snapshot_blocks)

P1  Both give the same: the entries of the part, in the order of work, with their lease rows.
P2  No entry is given whose checksum is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from journal.core.entry.keys import PRIMARY_BYTES
from journal.core.entry.rows import ENTRY_HEAD, LeaseRow, decode_lease
from journal.core.snapshot_blocks import KeyRange
from journal.engine.snapshots.reader import Copied, check
from journal.engine.snapshots.snapshot import EngineSnapshotPart
from journal.errors import StoreDamaged
from spark_export.columns.crc_check import first_wrong
from spark_export.columns.lmdb_pages import LeafRows, Leaves, fixed

PRIMARY = np.dtype([("priority", "u1"), ("date", ">u8"), ("turn", ">u8"), ("slot", "V17")])
HEAD = np.dtype(
    [("insertion", ">u8"), ("expiration", ">u8"), ("accepted", ">u8"), ("at", ">u8"), ("version", ">u4"), ("timeouts", "u1"),
     ("owner", "u1"), ("key", ">u2")]
)  # fmt: skip
_CRC = 4
_BOTH = np.dtype([("primary", PRIMARY), ("head", HEAD)])
assert (PRIMARY.itemsize, _CRC + HEAD.itemsize) == (PRIMARY_BYTES, ENTRY_HEAD)
IS_BYTES = 0x8000
BYTES_MAX = 64 << 20
"""Arrow's offsets have 32 bits: what is large is cut into pieces that stay far below."""
_LARGE_HEAD = 16


class EntryBlock(Protocol):
    """Some entries as they are stored (a block of a snapshot)."""

    @property
    def primaries(self) -> Sequence[bytes]: ...

    @property
    def values(self) -> Sequence[bytes]: ...

    @property
    def leases(self) -> dict[int, bytes]: ...


class PackedEntries:
    """Entries one behind the other, with their fixed parts as arrays."""

    def __init__(
        self, primaries: Any, heads: Any, whole: Any, tails: Any, ends: Any, leases: dict[int, LeaseRow]
    ) -> None:
        self.primaries, self.heads = primaries, heads
        self.whole = whole
        """The bytes of all."""
        self.tails, self.ends = tails, ends
        """Where in them what follows the fixed part begins (owner, key, data), and where it ends."""
        self.leases = leases
        """By the number of the entry."""

    def __len__(self) -> int:
        return len(self.tails)


def of_part(part: Any) -> Iterator[PackedEntries]:
    """The entries of a part of a snapshot, some thousand at a time (P1)."""
    copies = [copy for copy in part.copies if copy.size] if isinstance(part, EngineSnapshotPart) else []
    if len(copies) == 1:
        yield from of_copy(copies[0], part.ranges)
    else:
        for block in part.read():
            yield from of_block(block)


def of_block(block: EntryBlock) -> Iterator[PackedEntries]:
    """The entries of a block, which were verified when it was read."""
    primaries, values = block.primaries, block.values
    leases = {n: decode_lease(primaries[n], row) for n, row in block.leases.items()}
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    for start, end in _pieces(sizes):
        whole = np.frombuffer(b"".join(values[start:end]), np.uint8)
        ends = np.cumsum(sizes[start:end])
        heads_at = ends - sizes[start:end] + _CRC
        yield PackedEntries(
            np.frombuffer(b"".join(primaries[start:end]), PRIMARY),
            fixed(whole, HEAD, heads_at),
            whole,
            heads_at + HEAD.itemsize,
            ends,
            {n - start: row for n, row in leases.items() if start <= n < end},
        )


def of_copy(copy: Copied, ranges: Sequence[KeyRange]) -> Iterator[PackedEntries]:
    """The entries of a copy, read from its pages."""
    check(copy)
    with Leaves(copy.path, PRIMARY_BYTES) as leaves:
        for rows in leaves.rows(b"entries", ranges):
            if (rows.sizes < ENTRY_HEAD).any():
                raise StoreDamaged(
                    f"{copy.path} is damaged: an entry is shorter than its fixed part. Take another snapshot"
                )
            for start, end in _pieces(rows.sizes):
                yield _packed(leaves, rows.only(slice(start, end)), ranges)


def _pieces(sizes: Any) -> list[tuple[int, int]]:
    """From where to where entries are taken together: so many that they have at most BYTES_MAX, and at least one."""
    count = len(sizes)
    ends = np.cumsum(sizes)
    if not count or ends[-1] <= BYTES_MAX:
        return [(0, count)] if count else []
    found, start, before = [], 0, 0
    while start < count:
        end = max(start + 1, int(np.searchsorted(ends, before + BYTES_MAX, "right")))
        found.append((start, end))
        start, before = end, int(ends[end - 1])
    return found


def _packed(leaves: Leaves, rows: LeafRows, ranges: Sequence[KeyRange]) -> PackedEntries:
    raw, values = _with_large(leaves, rows) if rows.is_large.any() else (rows.raw, rows.values)
    crcs = fixed(raw, np.dtype(">u4"), values).astype(np.uint32)
    starts = np.empty((len(rows), 2), np.int64)
    starts[:, 0], starts[:, 1] = rows.keys, values + _CRC
    sizes = np.empty((len(rows), 2), np.int64)
    sizes[:, 0], sizes[:, 1] = PRIMARY_BYTES, rows.sizes - _CRC
    whole = _gathered(leaves, raw, starts.ravel(), sizes.ravel())
    ends = np.cumsum(rows.sizes + (PRIMARY_BYTES - _CRC))
    begins = ends - rows.sizes - (PRIMARY_BYTES - _CRC)
    wrong = first_wrong(whole, begins, ends, crcs)
    both = fixed(whole, _BOTH, begins)
    if wrong is not None:
        raise StoreDamaged(
            f"the entry at primary key {both['primary'][wrong].tobytes().hex()} does not match its checksum: run `journal check`, and "
            "take another snapshot"
        )
    tails = begins + _BOTH.itemsize
    return PackedEntries(both["primary"], both["head"], whole, tails, ends, _leases(leaves, both["primary"], ranges))


def _gathered(leaves: Leaves, raw: Any, starts: Any, sizes: Any) -> Any:
    """Pieces of memory one behind the other: Arrow copies them, a quarter of what slices in Python take."""
    order = np.argsort(starts, kind="stable")
    places = np.empty(2 * len(starts) + 1, np.int32)
    places[0:-1:2] = starts[order]
    places[1::2] = places[0:-1:2] + sizes[order]
    places[-1] = places[-2]
    if (places[1:] < places[:-1]).any():
        raise leaves.damaged("rows lie one upon the other")
    pieces = pa.Array.from_buffers(pa.binary(), len(places) - 1, [None, pa.py_buffer(places), pa.py_buffer(raw)])
    ranks = np.empty_like(order)
    ranks[order] = np.arange(0, len(places) - 1, 2)
    return np.frombuffer(pieces.take(pa.array(ranks)).buffers()[2], np.uint8)


def _with_large(leaves: Leaves, rows: LeafRows) -> tuple[Any, Any]:
    """The bytes with the large values behind them, and where all values begin."""
    sizes = np.where(rows.is_large, rows.sizes + _LARGE_HEAD, 0)
    ends = np.cumsum(sizes) + len(rows.raw)
    raw = np.empty(int(ends[-1]), np.uint8)
    raw[: len(rows.raw)] = rows.raw
    view = memoryview(raw.data)
    values = np.where(rows.is_large, ends - sizes + _LARGE_HEAD, rows.values)
    for n in np.flatnonzero(rows.is_large).tolist():
        leaves.large(int(rows.values[n]), view[int(ends[n] - sizes[n]) : int(ends[n])])
    return raw, values


def _leases(leaves: Leaves, primaries: Any, ranges: Sequence[KeyRange]) -> dict[int, LeaseRow]:
    """The lease rows of entries, by their numbers; each verified, and of an entry that is there."""
    first, behind = primaries[0].tobytes(), primaries[-1].tobytes() + b"\0"
    between = [(max(low, first), min(high, behind)) for low, high in ranges if low < behind and high > first]
    found: dict[int, LeaseRow] = {}
    names: dict[bytes, int] = {}
    for rows in leaves.rows(b"leases", between):
        if not names:
            plain = np.ascontiguousarray(primaries).view(f"V{PRIMARY_BYTES}")
            names = {name: n for n, name in enumerate(plain.tolist())}
        if rows.is_large.any():
            raise leaves.damaged("a lease is larger than any can be")
        for key_at, value_at, size in zip(rows.keys.tolist(), rows.values.tolist(), rows.sizes.tolist(), strict=True):
            primary = rows.raw[key_at : key_at + PRIMARY_BYTES].tobytes()
            value = rows.raw[value_at : value_at + size].tobytes()
            if primary not in names:
                raise StoreDamaged(f"the lease of primary key {primary.hex()} has no entry: run `journal check`")
            found[names[primary]] = decode_lease(primary, value)
    return found
