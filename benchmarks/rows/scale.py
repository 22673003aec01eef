"""
What a claim costs when there is much that it must not look at.

Measured at `interval`: at `full` the sync of the done would hide what the index costs, and every ratio would be near
one. The refill after each round keeps the stores as they were and is not timed.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import journal
from benchmarks.measure import Contender, interleave, say
from benchmarks.ours import JOURNAL, LOAD_BATCH, LONG_LEASE, fill, load
from benchmarks.plan import Plan
from benchmarks.table import Row

_CLAIMS = 100
_LOW_PRIORITY = 199
"""The last one that is not for idle workers only: every other priority stands in front of it."""
_YEAR_MS = 365 * 24 * 3_600_000


class _Store:
    """A store that claims and finishes, and is filled up again."""

    def __init__(self, path: Path, **refill: Any) -> None:
        self.store = journal.open(path, durability="interval")
        self.journal = self.store.journal(JOURNAL)
        self._refill = refill
        self._turns = itertools.count()

    def claim_and_done(self) -> None:
        claim = self.journal.claim
        for _ in range(_CLAIMS):
            lease = claim(consumer="bench")
            assert lease is not None
            lease.done()

    def refill(self) -> None:
        load(self.journal, _CLAIMS, f"refill-{next(self._turns)}", **self._refill)

    def contender(self, name: str) -> Contender:
        return Contender(name, _CLAIMS, self.claim_and_done, self.refill)


def _compare(what: str, crowded: _Store, plain: _Store, against: str, plan: Plan, note: str) -> Row:
    times = interleave([crowded.contender("crowded"), plain.contender(against)], plan.rounds * 2, warm_up=2)
    crowded.store.close()
    plain.store.close()
    return Row.compare(what, times["crowded"], times[against], 0.7, note=note)


def many_waiting(directory: Path, plan: Plan, large: Path) -> list[Row]:
    """`large` is a store with `plan.many` entries that wait."""
    say(f"claim + done with {plan.many:,} entries waiting")
    small = directory / "few-waiting"
    fill(small, plan.few)
    what = f"claim + done, {plan.many:,} waiting"
    return [_compare(what, _Store(large), _Store(small), f"{plan.few:,} waiting", plan, "interval")]


def many_processing(directory: Path, plan: Plan) -> list[Row]:
    say(f"claim + done with {plan.processing:,} entries processing in front")
    crowded, plain = directory / "processing", directory / "not-processing"
    fill(crowded, plan.processing, "processing", priority=0)
    with journal.open(crowded, durability="none") as store:
        claim_many = store.journal(JOURNAL).claim_many
        for _ in range(0, plan.processing, LOAD_BATCH):
            claim_many(LOAD_BATCH, consumer="other", lease=LONG_LEASE)
        store.checkpoint()
    for path in (crowded, plain):
        fill(path, plan.few)
    what = f"claim + done, {plan.processing:,} processing in front"
    return [_compare(what, _Store(crowded), _Store(plain), "none processing", plan, "interval")]


def many_future(directory: Path, plan: Plan) -> list[Row]:
    say("claim + done with every priority full of future entries")
    crowded, plain = directory / "future", directory / "no-future"
    with journal.open(crowded, durability="none") as store:
        entries = store.journal(JOURNAL)
        for priority in range(256):
            load(entries, plan.future_per_priority, f"future-{priority}", priority=priority, delay=_YEAR_MS)
        store.checkpoint()
    for path in (crowded, plain):
        fill(path, plan.few, priority=_LOW_PRIORITY)
    what = f"claim + done, 256 priorities × {plan.future_per_priority} future entries"
    full, spare = (_Store(path, priority=_LOW_PRIORITY) for path in (crowded, plain))
    return [_compare(what, full, spare, "no future entries", plan, "interval")]
