"""
Buckets: equal parts of all keys, so that consumers can share the work without contention.

    murmur   00000000 …                 40000000 …                80000000 …                             ffffffff …
    bucket   0    1    2    3    4  …   256                       512                                    1023
             └──── a ────┘└──── b ────┘                      a range belongs to one consumer

An entry's bucket is the place of its murmur (the first 32 bits, read as a fraction of all there are) among `buckets` equal
parts. Nothing is stored: the bucket follows from the key, the slot or the primary key.

B1  A key's bucket never changes while `buckets` does not: not with the version of this program, not over a reopen.
B2  A range of buckets is a range of murmurs (`Range.murmurs`): whether an entry is in it is two comparisons of bytes.
    With another number of buckets the same part of the line is the same part of the keys.
B3  `deal` covers every bucket exactly once; the sizes of the ranges differ by at most one, the larger ones first. With more
    consumers than buckets, some have none.
B4  Given what was dealt before, `deal` moves as few buckets as any way of giving these ranges to the consumers. (About
    a quarter of all when one of many comes or goes: ranges are contiguous, so their neighbours must shift.)

A murmur is no secret: a client that chooses keys on purpose can put them all into one bucket. Where untrusted clients choose
keys, let consumers claim over all buckets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct

from journal.core.entry.keys import SLOT_BYTES
from journal.errors import Invalid

BUCKETS_DEFAULT = 1024
BUCKETS_MAX = 1 << 16
"""The largest part is then less than 1/65,536 larger than the smallest: 32 bits are shared out evenly enough."""

_BITS = 32
_head = Struct(">I").unpack_from
_END = b"\xff" * (SLOT_BYTES + 1)
_TEXT = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def bucket_of(slot: bytes, buckets: int, at: int = 0) -> int:
    """The bucket of a murmur or a slot, or of a longer key that has it from `at` on (B1)."""
    head: int = _head(slot, at)[0]
    return head * buckets >> _BITS


def check_buckets(buckets: int) -> int:
    """A number of buckets, or the reason why it cannot be one."""
    if type(buckets) is not int or not 1 <= buckets <= BUCKETS_MAX:
        raise Invalid(f"buckets is {buckets!r}: it must be an int from 1 to {BUCKETS_MAX}")
    return buckets


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """The buckets from `low` up to, and without, `high`; never empty. As a text both ends are in it: "0-3"."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if type(self.low) is not int or type(self.high) is not int or not 0 <= self.low < self.high <= BUCKETS_MAX:
            raise Invalid(
                f"there is no range of buckets from {self.low!r} up to {self.high!r}: it takes 0 <= low < high <= {BUCKETS_MAX}"
            )

    def __len__(self) -> int:
        return self.high - self.low

    def __contains__(self, bucket: object) -> bool:
        return isinstance(bucket, int) and self.low <= bucket < self.high

    def __str__(self) -> str:
        return f"{self.low}-{self.high - 1}"

    @classmethod
    def parse(cls, text: str) -> Range:
        """The range of a text: "0-3", or "5" for a single bucket."""
        match = _TEXT.fullmatch(text.strip()) if type(text) is str else None
        if match is None:
            raise Invalid(f"{text!r} is no range of buckets: write the first and the last, e.g. '0-3', or one number")
        low, last = int(match[1]), int(match[2] or match[1])
        if last < low:
            raise Invalid(f"{text!r} is no range of buckets: the last, {last}, is before the first, {low}")
        return cls(low, last + 1)

    def within(self, buckets: int) -> Range:
        """Itself, when there are that many buckets."""
        if self.high > check_buckets(buckets):
            raise Invalid(f"the buckets {self} are not all there: there are {buckets}, from 0 to {buckets - 1}")
        return self

    def murmurs(self, buckets: int) -> tuple[bytes, bytes]:
        """Two bounds: the murmurs and the slots of this range, and no others, are `low <= murmur < high` (B2)."""
        self.within(buckets)
        low, high = (-((-bucket << _BITS) // buckets) for bucket in (self.low, self.high))  # rounded up
        return low.to_bytes(4, "big"), _END if high >> _BITS else high.to_bytes(4, "big")


Dealt = Mapping[str, Range | None]
"""What each consumer has; None: nothing."""


def deal(buckets: int, consumers: Sequence[str], before: Dealt | None = None) -> dict[str, Range | None]:
    """
    Ranges for consumers, which are in the order of their arrival (B3).

    `before` is what was dealt last: a consumer that is still there keeps as much of it as possible (B4). The same arguments give
    the same ranges, everywhere.
    """
    check_buckets(buckets)
    if len(set(consumers)) != len(consumers):
        twice = next(name for name in consumers if list(consumers).count(name) > 1)
        raise Invalid(f"the consumer {twice!r} is there twice: consumers that share buckets have names of their own")
    if not consumers:
        return {}
    ranges = _split(buckets, min(buckets, len(consumers)))
    taken = _kept({name: before[name] for name in consumers if name in before} if before else {}, ranges)
    given = set(taken.values())
    free = iter([part for part in ranges if part not in given])
    return {name: taken[name] if name in taken else next(free, None) for name in consumers}


def moved(before: Dealt, after: Dealt) -> int:
    """How many buckets are with another consumer than before, or with one at all."""
    held = sum(len(part) for part in after.values() if part is not None)
    return held - sum(_overlap(before.get(name), part) for name, part in after.items())


def _split(buckets: int, parts: int) -> list[Range]:
    """All buckets in so many contiguous ranges, the larger ones first."""
    size, larger = divmod(buckets, parts)
    starts = [n * size + min(n, larger) for n in range(parts + 1)]
    return [Range(low, high) for low, high in pairwise(starts)]


def _overlap(a: Range | None, b: Range | None) -> int:
    return 0 if a is None or b is None else max(0, min(a.high, b.high) - max(a.low, b.low))


_Edge = tuple[str, Range, int]
"""A consumer, a range that overlaps with what it had, and by how much."""
_Chain = tuple[_Edge, "_Chain | None"]


def _kept(before: Dealt, ranges: list[Range]) -> dict[str, Range]:
    """
    Which ranges go to consumers that had a part of them, so that the sum of the parts is the largest (B4).

    Consumers and ranges both lie on one line without crossing, so each pair that overlaps, from left to right, shares its
    consumer or its range with the pair before it, or neither. Hence it is enough to remember whether these two are taken.
    """
    best: dict[tuple[bool, bool], tuple[int, _Chain | None]] = {(False, False): (0, None)}
    last: _Edge | None = None
    for edge in _edges(before, ranges):
        following: dict[tuple[bool, bool], tuple[int, _Chain | None]] = {}
        for (is_name_taken, is_range_taken), (weight, chain) in best.items():
            state = (
                is_name_taken and last is not None and last[0] == edge[0],
                is_range_taken and last is not None and last[1] == edge[1],
            )
            _keep_better(following, state, (weight, chain))
            if state == (False, False):
                _keep_better(following, (True, True), (weight + edge[2], (edge, chain)))
        best, last = following, edge
    chain = max(best.values(), key=lambda found: found[0])[1]
    taken: dict[str, Range] = {}
    while chain is not None:
        (name, part, _), chain = chain
        taken[name] = part
    return taken


def _keep_better(
    found: dict[tuple[bool, bool], tuple[int, _Chain | None]],
    state: tuple[bool, bool],
    new: tuple[int, _Chain | None],
) -> None:
    if state not in found or found[state][0] < new[0]:
        found[state] = new


def _edges(before: Dealt, ranges: list[Range]) -> Iterable[_Edge]:
    """The pairs that overlap, from left to right."""
    had = sorted((part, name) for name, part in before.items() if part is not None)
    for (left, a), (right, b) in pairwise(had):
        if left.high > right.low:
            raise Invalid(f"before, {a!r} had the buckets {left} and {b!r} had {right}: dealt ranges do not overlap")
    at = 0
    for part, name in had:
        while at < len(ranges) and ranges[at].high <= part.low:
            at += 1
        here = at
        while here < len(ranges) and ranges[here].low < part.high:
            yield name, ranges[here], _overlap(part, ranges[here])
            here += 1
