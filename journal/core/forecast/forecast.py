"""
The load ahead: how many entries fall due in each of the coming steps, by priority and status. Payloads are not looked at.

      overdue   │   step 0    │   step 1    │  …  │  last step  │   later
    ────────────┼─────────────┼─────────────┼─────┼─────────────┼──────────►  process date
               now        now + step                        the horizon

O1  A step holds the entries whose process date is after its start and not after its end: they are due when it ends. Overdue is
    what is due now (process date <= now), later what comes after the last step. Every entry is counted once.
O2  Spikes and hints count waiting entries only. What is processing is leased to a consumer; if its lease is lost it comes
    back, which cannot be predicted.
O3  A forecast is a frozen value: it says what was known at `now`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from journal.core.entry.keys import BEHIND_ALL, pack_bound, unpack_place
from journal.core.forecast import scaling as scalings
from journal.core.forecast import spikes as peaks
from journal.core.forecast.text import render
from journal.core.limits import NEVER, PRIORITY_MAX
from journal.core.times import DateLike, DurationLike, date_ms, duration_ms
from journal.errors import Invalid

STEPS_MAX = 10_000
"""A week of minutes. A longer forecast has no practical reader."""
STATUSES = ("W", "P")


@dataclass(frozen=True, slots=True)
class Load:
    """The entries whose process date is after `start`, up to `end`."""

    start: int
    end: int
    counts: Mapping[tuple[int, str], int]
    """How many of each priority and status (W or P)."""

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts.values())

    @property
    def waiting(self) -> int:
        """Those that are under no lease."""
        return self.by_status["W"]

    @property
    def by_priority(self) -> dict[int, int]:
        """How many of each priority, the first ones first."""
        found: Counter[int] = Counter()
        for (priority, _), count in self.counts.items():
            found[priority] += count
        return dict(sorted(found.items()))

    @property
    def by_status(self) -> dict[str, int]:
        """How many of each status, 0 too."""
        return {s: sum(n for (_, status), n in self.counts.items() if status == s) for s in STATUSES}

    def to_dict(self) -> dict[str, Any]:
        """The same as a dict that JSON can hold."""
        return {
            "start": self.start,
            "end": self.end,
            "total": self.total,
            "by_priority": {str(priority): count for priority, count in self.by_priority.items()},
            "by_status": self.by_status,
        }


@dataclass(frozen=True, slots=True)
class Forecast:
    """The load ahead, as it was known at `now`."""

    now: int
    step_ms: int
    overdue: Load
    steps: tuple[Load, ...]
    later: Load

    @property
    def total(self) -> int:
        """All entries, whenever they fall due."""
        return self.overdue.total + sum(step.total for step in self.steps) + self.later.total

    @property
    def end(self) -> int:
        """The horizon: the end of the last step."""
        return self.steps[-1].end

    def spikes(self, *, k: float = peaks.K, minimum: int = peaks.MINIMUM) -> list[peaks.Spike]:
        """Where far more than usual falls due; see `journal.core.forecast.spikes` for the rule."""
        waiting = [step.waiting for step in self.steps]
        return peaks.spikes(waiting, start=self.now, step_ms=self.step_ms, k=k, minimum=minimum)

    def scaling(
        self, rate: float, consumers: int, *, late: DurationLike = 0, lead: DurationLike = 0
    ) -> scalings.Scaling:
        """
        How many consumers it takes, each finishing `rate` entries a second, when there are `consumers` now.

        `late` is how long an entry may wait once it is due, `lead` how long a new consumer takes to start.
        """
        return scalings.scaling(
            [step.waiting for step in self.steps],
            overdue=self.overdue.waiting,
            start=self.now,
            step_ms=self.step_ms,
            rate=rate,
            consumers=consumers,
            late_ms=duration_ms(late, "late"),
            lead_ms=duration_ms(lead, "lead"),
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as a dict that JSON can hold."""
        return {
            "now": self.now,
            "step_ms": self.step_ms,
            "total": self.total,
            "overdue": self.overdue.to_dict(),
            "steps": [step.to_dict() for step in self.steps],
            "later": self.later.to_dict(),
            "spikes": [spike._asdict() for spike in self.spikes()],
        }

    def __str__(self) -> str:
        return render(self)


class ForecastTally:
    """Counts entries into the steps of a forecast, in any order."""

    def __init__(self, now: DateLike, *, step: DurationLike = "1m", horizon: DurationLike = "1h") -> None:
        self._now = date_ms(now, "now")
        self._step = duration_ms(step, "step")
        span = duration_ms(horizon, "horizon")
        if self._step < 1 or span < 1:
            raise Invalid(f"step is {self._step} ms and horizon {span} ms: both must be at least 1 ms")
        self._steps = -(-span // self._step)
        if self._steps > STEPS_MAX:
            raise Invalid(
                f"a horizon of {span} ms has {self._steps} steps of {self._step} ms: it may have {STEPS_MAX}, so take longer steps"
            )
        self._counts: dict[int, dict[tuple[int, str], int]] = {}

    def add(self, process_date: int, priority: int, status: str, count: int = 1) -> None:
        """Count an entry, or some that are alike."""
        if status not in STATUSES:
            raise Invalid(f"status is {status!r}: it must be W (waiting) or P (processing)")
        if not 0 <= priority <= PRIORITY_MAX or count < 0:
            raise Invalid(f"{count} entries of priority {priority}: there are priorities from 0 to {PRIORITY_MAX}")
        self._count(self._step_of(process_date), priority, status, count)

    def add_places(self, places: Sequence[bytes], processing: Sequence[bytes]) -> None:
        """
        Count entries by their primary keys, which are in order; `processing` are those of them that are, in order too.

        All of one priority and one step stand together: their number is found by a search, without a look at each.
        """
        at = busy = busy_end = 0
        while at < len(places):
            priority, date = unpack_place(places[at])
            step = self._step_of(date)
            stop = self._stop(priority, step)
            end = bisect_left(places, stop, at)
            if processing:
                busy_end = bisect_left(processing, stop, busy)
                self._count(step, priority, "P", busy_end - busy)
            self._count(step, priority, "W", end - at - (busy_end - busy))
            at, busy = end, busy_end

    def _step_of(self, process_date: int) -> int:
        """-1 is overdue, and everything after the horizon is one step more."""
        if process_date <= self._now:
            return -1
        return min((process_date - self._now - 1) // self._step, self._steps)

    def _stop(self, priority: int, step: int) -> bytes:
        """The least primary key behind all of a priority that are in a step."""
        if step < self._steps:
            return pack_bound(priority, self._now + (step + 1) * self._step + 1)
        return BEHIND_ALL if priority == PRIORITY_MAX else pack_bound(priority + 1, 0)

    def _count(self, step: int, priority: int, status: str, count: int) -> None:
        if count:
            found = self._counts.setdefault(step, {})
            found[priority, status] = found.get((priority, status), 0) + count

    def forecast(self) -> Forecast:
        """What was counted so far."""
        edges = [self._now + n * self._step for n in range(self._steps + 1)]
        return Forecast(
            self._now,
            self._step,
            self._load(-1, 0, self._now),
            tuple(self._load(n, edges[n], edges[n + 1]) for n in range(self._steps)),
            self._load(self._steps, edges[-1], NEVER),
        )

    def _load(self, at: int, start: int, end: int) -> Load:
        return Load(start, end, dict(sorted(self._counts.get(at, {}).items())))


def forecast(
    rows: Iterable[tuple[int, int, str]],
    *,
    now: DateLike,
    step: DurationLike = "1m",
    horizon: DurationLike = "1h",
) -> Forecast:
    """The forecast of entries, each given as its process date, priority and status."""
    tally = ForecastTally(now, step=step, horizon=horizon)
    for process_date, priority, status in rows:
        tally.add(process_date, priority, status)
    return tally.forecast()
