"""
Spikes: steps in which far more falls due than in the others.

What is usual is the **median** of all steps of the horizon; how much they scatter is the median of their distances from it
(**MAD**). Unlike a mean and a standard deviation, both stay where they are when a spike comes: it cannot hide itself, nor a
second one. A step is a spike when its count is more than

    usual + k × scatter        scatter = the largest of  1.4826 × MAD,  √usual,  1

- 1.4826 × MAD is the standard deviation, where counts scatter as they mostly do;
- √usual is how much counts of independent events scatter by chance alone: in a flat horizon (MAD 0) 101 after many 100 is
  nothing;
- and at least `minimum`, since three entries where there are none otherwise are no reason for an alarm.

P1  Steps that follow one another are one spike.
P2  When half of the steps or more are high, that is the usual load and no spike: how many consumers it takes is answered by
    `journal.core.forecast.scaling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, sqrt
from typing import NamedTuple

from journal.core.statistics import deviation, median
from journal.errors import Invalid

K = 5.0
MINIMUM = 10
_NORMAL = 1.4826


class Spike(NamedTuple):
    """Far more than usual falls due after `start`, up to `end`."""

    start: int
    end: int
    total: int
    peak: int
    """The most of one step."""
    usual: float
    """What a step usually has."""


def threshold(counts: Sequence[int], k: float = K) -> float:
    """What a step must exceed to be a spike."""
    if type(k) not in (int, float) or not isfinite(k) or k <= 0:
        raise Invalid(f"k is {k!r}: it must be a number above 0, e.g. {K:g}")
    usual = median(counts)
    return usual + k * max(_NORMAL * deviation(counts), sqrt(usual), 1.0)


def spikes(counts: Sequence[int], *, start: int, step_ms: int, k: float = K, minimum: int = MINIMUM) -> list[Spike]:
    """The spikes of steps that begin at `start` and are `step_ms` long, from left to right."""
    if type(minimum) is not int or minimum < 1:
        raise Invalid(f"minimum is {minimum!r}: it must be an int of at least 1")
    limit = threshold(counts, k)
    usual = median(counts)
    found: list[Spike] = []
    for n, count in enumerate(counts):
        if count <= limit or count < minimum:
            continue
        begin = start + n * step_ms
        if found and found[-1].end == begin:  # P1
            last = found.pop()
            found.append(Spike(last.start, begin + step_ms, last.total + count, max(last.peak, count), usual))
        else:
            found.append(Spike(begin, begin + step_ms, count, count, usual))
    return found
