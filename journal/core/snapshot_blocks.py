"""
Blocks of a snapshot, and the ranges of primary keys by which it is read in parts.

    block    some thousand entries in the order of work, as bytes (rows.py), with the lease rows of those that have one
    range    (low, high): all primary keys with low <= key < high
    part     the ranges that one reader reads

K1  The ranges of a selection are in order and have nothing in common; between them they hold exactly the primary keys of
    the priorities and process dates that were asked for.
K2  The parts that a selection is split into have nothing in common, are in order, and hold together what it holds, whatever
    the keys are that it is split at.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple
from zlib import crc32

from journal.core.arguments import check_priority, date_range, listed
from journal.core.entry.keys import BEHIND_ALL, PRIMARY_BYTES, pack_bound
from journal.core.entry.rows import ENTRY_HEAD
from journal.core.limits import NEVER
from journal.core.times import DateLike
from journal.errors import Invalid, StoreDamaged

KeyRange = tuple[bytes, bytes]

BLOCK_ROWS = 4096
BLOCK_BYTES = 4 << 20
PARTS_MAX = 1 << 14
RANGES_MAX = 256
"""A selection has a range for each priority at most."""
_CRC, _COVERED = itemgetter(slice(4)), itemgetter(slice(4, None))


class Block(NamedTuple):
    """Entries of a snapshot, in the order of work; their checksums have been verified."""

    primaries: list[bytes]
    """Of each its primary key, 34 bytes."""
    values: list[bytes]
    """Of each the bytes of the entry, as docs/DATA.md has them."""
    leases: dict[int, bytes]
    """The lease rows of those that have one, by their number in the block."""


def parts_number(count: int) -> int:
    """How many parts a caller wants."""
    if type(count) is not int or not 1 <= count <= PARTS_MAX:
        raise Invalid(f"the number of parts is {count!r}: it must be an int from 1 to {PARTS_MAX}")
    return count


def selected(since: DateLike | None, until: DateLike | None, priorities: Iterable[int] | None) -> list[KeyRange]:
    """The ranges with these process dates (`since <= date < until`) and priorities (K1)."""
    first, end = date_range(since, until)
    wanted = range(256) if priorities is None else sorted(set(map(check_priority, listed(priorities, "priorities"))))
    if first >= end:
        return []
    if first > 0 or end < NEVER:
        return [(pack_bound(priority, first), pack_bound(priority, end)) for priority in wanted]
    found: list[KeyRange] = []
    for priority in wanted:
        low, high = bytes((priority,)), BEHIND_ALL if priority == 255 else bytes((priority + 1,))
        if found and found[-1][1] == low:
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return found


def checked_ranges(ranges: object) -> list[KeyRange]:
    """Ranges from a client, checked: at most RANGES_MAX pairs of keys, in order and disjoint; else Invalid."""
    if not isinstance(ranges, (list, tuple)) or len(ranges) > RANGES_MAX:
        raise Invalid(f"ranges is no list of at most {RANGES_MAX} pairs of keys")
    found: list[KeyRange] = []
    for each in ranges:
        if not isinstance(each, (list, tuple)) or len(each) != 2 or not all(type(key) is bytes for key in each):
            raise Invalid(f"{each!r} is no range of primary keys: it must be a pair of bytes")
        low, high = each
        if len(low) > len(BEHIND_ALL) or len(high) > len(BEHIND_ALL) or low >= high or (found and low < found[-1][1]):
            raise Invalid(f"{low.hex()} to {high.hex()} is no range of primary keys, or not behind the one before it")
        found.append((low, high))
    return found


def bounds(samples: Sequence[bytes], count: int) -> list[bytes]:
    """Keys between `count` parts that have about as many of the samples each; samples are in order."""
    return sorted({samples[len(samples) * number // count] for number in range(1, count)}) if samples else []


def split(ranges: Sequence[KeyRange], at: Iterable[bytes]) -> list[tuple[KeyRange, ...]]:
    """Ranges as parts, split at keys that are in order (K2)."""
    parts: list[tuple[KeyRange, ...]] = []
    rest = list(ranges)
    for bound in at:
        part, rest = _cut(rest, bound)
        if part:
            parts.append(tuple(part))
    return [*parts, tuple(rest)] if rest or not parts else parts


def _cut(ranges: list[KeyRange], bound: bytes) -> tuple[list[KeyRange], list[KeyRange]]:
    """What is below a key, and what is not."""
    below = [(low, min(high, bound)) for low, high in ranges if low < bound]
    return below, [(max(low, bound), high) for low, high in ranges if high > bound]


def remaining(ranges: Sequence[KeyRange], after: bytes) -> list[KeyRange]:
    """What of the ranges comes after a primary key."""
    return _cut(list(ranges), after + b"\0")[1]


def verify(primaries: list[bytes], values: list[bytes]) -> None:
    """The checksums of many entries (rows R1): a third of a microsecond each, a quarter of what decoding them takes."""
    found = list(map(crc32, map(_COVERED, values), map(crc32, primaries)))
    are_whole = min(map(len, values), default=ENTRY_HEAD) >= ENTRY_HEAD and {*map(len, primaries)} <= {PRIMARY_BYTES}
    if are_whole and struct.pack(f">{len(found)}I", *found) == b"".join(map(_CRC, values)):
        return
    for primary, value, crc in zip(primaries, values, found, strict=True):
        if len(value) < ENTRY_HEAD or len(primary) != PRIMARY_BYTES or value[:4] != crc.to_bytes(4, "big"):
            raise StoreDamaged(
                f"the entry at primary key {primary.hex()} does not match its checksum: run `journal check`, and take "
                "another snapshot"
            )
