"""
How many consumers the coming load takes, and when to have them.

The model is a vessel: what is overdue is in it, what falls due in a step flows in evenly over the step, and each consumer takes
out `rate` entries a second. Work is taken by date, by any consumer; what is under a lease now is not counted: a consumer has it.

C1  A step needs as many consumers as finish within it what falls due in it. With `late` an entry may wait that long: each
    step's entries, and what is overdue now, are then spread evenly over the steps up to `late` after theirs.
C2  The plan has, at each time, what the coming `lead` (the time a consumer takes to start; at least one step) needs at most:
    consumers are requested in advance, and no consumer is removed for a single quiet step.
C3  What is left at the end of each step, and when the vessel is empty for the first time, is reckoned with the consumers that
    there are now.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite
from typing import NamedTuple

from journal.errors import Invalid

_EXACT = 1e-9
"""Tolerance, so that the rounding of floats does not add a consumer."""


class Need(NamedTuple):
    """What one step takes."""

    start: int
    due: int
    """Entries that fall due in it; in the first step also those that are overdue."""
    consumers: int
    """So many finish in time."""
    left: int
    """Entries that are left at its end with the consumers of now."""


class ScalingStep(NamedTuple):
    """Have so many consumers from this date on."""

    at: int
    consumers: int


class Scaling(NamedTuple):
    """The hints for a load."""

    consumers: int
    """There are now."""
    rate: float
    """Entries a second that one of them finishes."""
    needs: tuple[Need, ...]
    plan: tuple[ScalingStep, ...]
    """From now on; empty when the consumers of now are just right throughout."""
    empty_at: int | None
    """When nothing that is due is left for the first time; None: not within the horizon."""

    @property
    def most(self) -> int:
        """The largest number of consumers that a step needs."""
        return max(need.consumers for need in self.needs)

    def __str__(self) -> str:
        lines = [f"consumers: {self.consumers}, of {self.rate:g} entries/s each; needed at most: {self.most}"]
        if self.empty_at is None:
            lines.append(f"not worked off within the horizon: {self.needs[-1].left} entries are left at its end")
        elif self.empty_at > self.needs[0].start:
            lines.append(f"what is overdue is worked off in {(self.empty_at - self.needs[0].start) / 1000:g} s")
        have = self.consumers
        for at, consumers in self.plan:
            more = consumers - have
            when = "now" if at == self.needs[0].start else f"in {(at - self.needs[0].start) / 1000:g} s"
            lines.append(f"{when}: {'add' if more > 0 else 'let go'} {abs(more)}, to have {consumers}")
            have = consumers
        return "\n".join(lines)


def scaling(
    due: Sequence[int],
    *,
    overdue: int,
    start: int,
    step_ms: int,
    rate: float,
    consumers: int,
    late_ms: int = 0,
    lead_ms: int = 0,
) -> Scaling:
    """The hints for `due` entries in each step from `start` on, and `overdue` ones now."""
    if type(rate) not in (int, float) or not isfinite(rate) or rate <= 0:
        raise Invalid(f"rate is {rate!r}: it must be the entries a second that one consumer finishes, above 0")
    if type(consumers) is not int or consumers < 0:
        raise Invalid(f"consumers is {consumers!r}: it must be an int of at least 0")
    if not due or step_ms < 1:
        raise Invalid(f"there are {len(due)} steps of {step_ms} ms: hints take at least one, of at least 1 ms")
    seconds = step_ms / 1000
    wanted = [_consumers(load, rate * seconds) for load in _spread(due, overdue, late_ms // step_ms)]
    left, empty_at = _drain(due, overdue, start, seconds, rate * consumers)
    falling = [due[0] + overdue, *due[1:]]
    needs = tuple(Need(start + n * step_ms, falling[n], wanted[n], ceil(left[n] - _EXACT)) for n in range(len(due)))
    ahead = max(1, ceil(lead_ms / step_ms))
    return Scaling(consumers, float(rate), needs, _plan(wanted, consumers, ahead, start, step_ms), empty_at)


def _consumers(load: float, capacity: float) -> int:
    return ceil(load / capacity - _EXACT)


def _spread(due: Sequence[int], overdue: int, late: int) -> list[float]:
    """The load of each step when entries may be done up to `late` steps after theirs (C1)."""
    share = late + 1
    loads = [0.0] * len(due)
    for n, count in enumerate([due[0] + overdue, *due[1:]]):
        for at in range(n, min(n + share, len(due))):
            loads[at] += count / share
    return loads


def _drain(due: Sequence[int], overdue: int, start: int, seconds: float, out: float) -> tuple[list[float], int | None]:
    """What is left at the end of each step, and when it was nothing for the first time (C3)."""
    level = float(overdue)
    empty_at = start if overdue == 0 else None
    left = []
    for n, count in enumerate(due):
        net = count / seconds - out
        if empty_at is None and level + net * seconds <= _EXACT:
            empty_at = start + round((n * seconds + level / -net) * 1000)
        level = max(0.0, level + net * seconds)
        left.append(level)
    return left, empty_at


def _plan(wanted: Sequence[int], consumers: int, ahead: int, start: int, step_ms: int) -> tuple[ScalingStep, ...]:
    """Where the number of consumers must change (C2)."""
    changes: list[ScalingStep] = []
    have = consumers
    for n in range(len(wanted)):
        want = max(wanted[n : n + ahead + 1])
        if want != have:
            changes.append(ScalingStep(start + n * step_ms, want))
            have = want
    return tuple(changes)
