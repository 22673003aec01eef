"""
Comparing on a machine that other people use too.

M1  What is compared runs in turn, in short rounds, within one run: a slow second then hits both sides.
M2  The figure is the median of the ratios of each round, so a few bad rounds do not move it. The ratio of all time
    spent is kept beside it, because a median forgives what is rare and long (a checkpoint, say) and a sum does not.
M3  Which one goes first changes with each round, unless one needs what the one before it left.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

DATA = b"x" * 100
"""What every queue stores."""


def nothing() -> None:
    """The upkeep of one that needs none."""


@dataclass(frozen=True)
class Contender:
    """One side of a comparison: `run` does `operations` operations; `upkeep` follows and is not timed."""

    name: str
    operations: int
    run: Callable[[], object]
    upkeep: Callable[[], object] = nothing


@dataclass
class Times:
    """Seconds per operation, a figure for each round."""

    name: str
    rounds: list[float] = field(default_factory=list)

    @property
    def median_us(self) -> float:
        return statistics.median(self.rounds) * 1e6

    @property
    def mean_us(self) -> float:
        return statistics.fmean(self.rounds) * 1e6


@dataclass(frozen=True)
class Ratio:
    """How many times as fast as `theirs` ours is: 2.0 is twice as fast, half the time."""

    median: float
    of_sums: float

    @classmethod
    def of(cls, ours: Times, theirs: Times) -> Ratio:
        pairs = list(zip(ours.rounds, theirs.rounds, strict=True))
        return cls(statistics.median(t / o for o, t in pairs), sum(theirs.rounds) / sum(ours.rounds))


def interleave(
    contenders: Sequence[Contender], rounds: int, *, warm_up: int = 1, keep_order: bool = False
) -> dict[str, Times]:
    """Run all contenders in turn, `rounds` times, after `warm_up` rounds that do not count."""
    times = {contender.name: Times(contender.name) for contender in contenders}
    for turn in range(warm_up + rounds):
        first = 0 if keep_order else turn % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            started = time.perf_counter()
            contender.run()
            spent = time.perf_counter() - started
            contender.upkeep()
            if turn >= warm_up:
                times[contender.name].rounds.append(spent / contender.operations)
    return times


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def say(what: str) -> None:
    """Progress, for the waiting user: on stderr, so that the table can be piped."""
    print(f"  … {what}", file=sys.stderr, flush=True)
