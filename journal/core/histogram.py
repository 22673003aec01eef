"""
A histogram with fixed bounds: how often a duration was below 1, 2, 4, 8, … of a unit.

    bucket 0: below 1    bucket 1: below 2    bucket 2: below 4    …    bucket n: below 2^n

The bounds are powers of two, so that the bucket of a whole number is the number of its bits: an addition costs no search.
New values are kept as they are and sorted into the buckets FRESH_MAX at a time, which the interpreter does without a line of Python
for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

BUCKETS = 42
"""The last one takes all that is longer: 2^40 ms are 35 years, 2^40 µs are 12 days."""
FRESH_MAX = 64
"""One by one an addition took 0.36 µs, so it takes 0.15. A journal has three of these lists, and a store thousands of journals."""


class Histogram:
    """Durations, in whole units of 1 / `per_ms` milliseconds. Changed under a lock of its owner's."""

    __slots__ = ("_counts", "_sum", "fresh", "per_ms")

    def __init__(self, per_ms: int = 1) -> None:
        self.per_ms = per_ms
        self.fresh: list[int] = []
        """What is in no bucket yet. The hot path appends here, and calls `sort_in` when that makes more than FRESH_MAX."""
        self._counts = [0] * BUCKETS
        self._sum = 0

    def add(self, duration: int) -> None:
        """Take one in; one that is negative, since a clock was set, counts as none."""
        self.fresh.append(duration)
        if len(self.fresh) > FRESH_MAX:
            self.sort_in()

    def add_all(self, durations: Iterable[int]) -> None:
        """The same for many."""
        self.fresh += durations
        self.sort_in()

    def sort_in(self) -> None:
        """Have all in their buckets."""
        fresh, self.fresh = self.fresh, []
        if not fresh:
            return
        if min(fresh) < 0:
            fresh = [max(0, duration) for duration in fresh]
        total = sum(fresh)
        self._sum += total
        counts = self._counts
        for bits, count in Counter(map(int.bit_length, fresh)).items():
            counts[bits if bits < BUCKETS else BUCKETS - 1] += count

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(self._counts) + len(self.fresh)

    def view(self) -> dict[str, Any]:
        """As statistics show it: `buckets` are [bound in ms, how many were below it and in no bucket before], without empty ones."""
        self.sort_in()
        buckets = [[(1 << i) / self.per_ms, count] for i, count in enumerate(self._counts) if count]
        return {"count": self.count, "sum_ms": self._sum / self.per_ms, "buckets": buckets}
