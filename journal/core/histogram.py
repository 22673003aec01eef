"""
A histogram with fixed bounds: how often a duration was below 1, 2, 4, 8, … of a unit.

    bucket 0: below 1    bucket 1: below 2    bucket 2: below 4    …    bucket n: below 2^n

The bounds are powers of two, so that the bucket of a whole number is the number of its bits: an addition costs no search.
"""

from __future__ import annotations

from typing import Any

BUCKETS = 42
"""The last one takes all that is longer: 2^40 ms are 35 years, 2^40 µs are 12 days."""


class Histogram:
    """Durations, in whole units of 1 / `per_ms` milliseconds. Changed under a lock of its owner's."""

    __slots__ = ("counts", "per_ms", "sum")

    def __init__(self, per_ms: int = 1) -> None:
        self.per_ms = per_ms
        self.counts = [0] * BUCKETS
        self.sum = 0

    def add(self, duration: int) -> None:
        """Take one in; one that is negative, since a clock was set, counts as none."""
        if duration < 0:
            duration = 0
        self.counts[min(duration.bit_length(), BUCKETS - 1)] += 1
        self.sum += duration

    def view(self) -> dict[str, Any]:
        """As statistics show it: `buckets` are [bound in ms, how many were below it and in no bucket before], without empty ones."""
        buckets = [[(1 << i) / self.per_ms, count] for i, count in enumerate(self.counts) if count]
        return {"count": sum(self.counts), "sum_ms": self.sum / self.per_ms, "buckets": buckets}
