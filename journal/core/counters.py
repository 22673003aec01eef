"""
Counters of a journal since it was opened: a count for each verb and outcome, and histograms of durations.

A call counts when it reached the journal's state: a call that was refused for its arguments alone does not. A group counts once for
each of its items. Each event costs one addition where it happens; `statistics()` formats the totals. Each lease that is handed out
adds its lateness and each that is finished its time: their numbers are `leased` and `finished`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from journal.core.histogram import Histogram
from journal.errors import LeaseLost

VERBS = {
    "put": ("inserted", "merged", "queued", "ignored", "refused"),
    "create": ("inserted", "exists", "refused"),
    "load": ("loads", "repeated", "rows", "rejected"),
    "claim": ("leased", "empty", "refused"),
    "done": ("finished", "repeated", "lease_lost", "refused"),
    "extend": ("extended", "lease_lost"),
    "release": ("released", "failed", "lease_lost", "refused"),
    "bury": ("buried", "lease_lost"),
    "retry": ("retried", "refused"),
    "discard": ("discarded", "refused"),
    "move": ("moved", "refused"),
    "delete": ("deleted", "absent", "refused"),
    "timer": ("expired", "leases_lost", "buried"),
}
SAMPLE = 16
"""The time of each SAMPLE-th put is taken: reading a clock twice costs a hundredth of a put."""


class Tally:
    """The counts of one journal. Changed under its lock."""

    __slots__ = (*VERBS, "lateness", "processing", "put_times")

    def __init__(self) -> None:
        for verb, outcomes in VERBS.items():
            setattr(self, verb, dict.fromkeys(outcomes, 0))
        self.lateness = Histogram()
        self.processing = Histogram()
        self.put_times = Histogram(per_ms=1000)

    put: dict[str, int]
    create: dict[str, int]
    load: dict[str, int]
    claim: dict[str, int]
    done: dict[str, int]
    extend: dict[str, int]
    release: dict[str, int]
    bury: dict[str, int]
    retry: dict[str, int]
    discard: dict[str, int]
    move: dict[str, int]
    delete: dict[str, int]
    timer: dict[str, int]

    def verbs(self) -> dict[str, dict[str, int]]:
        """All counts."""
        found = {verb: dict(getattr(self, verb)) for verb in VERBS}
        found["claim"]["leased"], found["done"]["finished"] = self.lateness.count, self.processing.count
        return found


def refused(counts: dict[str, int], error: Exception) -> None:
    """Count a verb that was refused."""
    lost = isinstance(error, LeaseLost) and "lease_lost" in counts
    counts["lease_lost" if lost else "refused"] += 1


def count_results(counts: dict[str, int], results: Iterable[Any]) -> None:
    """Count the results of a group: a PutResult, or an error, for each."""
    for result in results:
        if isinstance(result, Exception):
            refused(counts, result)
        elif result is not None:
            counts[result.outcome] = counts.get(result.outcome, 0) + 1
