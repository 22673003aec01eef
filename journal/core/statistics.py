"""Median and median absolute deviation: robust against a few outliers."""

from __future__ import annotations

from collections.abc import Iterable


def median(numbers: Iterable[float]) -> float:
    """The number in the middle, or halfway between the two; 0 of none."""
    ordered = sorted(numbers)
    if not ordered:
        return 0.0
    half = len(ordered) // 2
    return float(ordered[half]) if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def deviation(numbers: Iterable[float]) -> float:
    """The median of the distances from the median (MAD)."""
    listed = list(numbers)
    middle = median(listed)
    return median(abs(number - middle) for number in listed)
