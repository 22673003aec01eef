"""
`python -m benchmarks roles`: what claims by buckets cost.

At `interval`, as the rows about many entries are: at `full` the sync of the done would hide what the index costs. The
refill after each round is not timed.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import journal
from benchmarks.measure import DATA, Contender, interleave, say
from benchmarks.ours import JOURNAL, LOAD_BATCH
from benchmarks.plan import Plan
from benchmarks.rows.load import load
from benchmarks.table import Row
from journal.core.buckets import bucket_of
from journal.core.entry.keys import murmur

BUCKETS = 500
OWN = journal.Range(200, 300)
"""A fifth of them."""
_CLAIMS = 100
_numbers = itertools.count()


def roles(directory: Path, plan: Plan) -> list[Row]:
    say(f"{plan.many:,} due entries of other ranges")
    crowded = _Sharing(directory / "crowded", plan.few, by=OWN)
    load_s = crowded.load_others(plan.many)
    index_s = crowded.first_claim()
    alone = _Sharing(directory / "alone", plan.few, by=OWN)
    alone.first_claim()
    over_all = _Sharing(directory / "all", plan.few, by=None)
    times = interleave(
        [crowded.contender("crowded"), alone.contender("no others"), over_all.contender("claims over all, no index")],
        plan.rounds * 2,
        warm_up=2,
    )
    crowded_put = Contender("indexed", _CLAIMS, crowded.refill, crowded.claim_and_done)
    plain_put = Contender("no index", _CLAIMS, over_all.refill, over_all.claim_and_done)
    groups = interleave([crowded_put, plain_put], plan.rounds, warm_up=1)
    for each in (crowded, alone, over_all):
        each.store.close()
    entries = plan.many + plan.few
    index = f"making the index took {index_s:.2f} s ({index_s / entries * 1e6:.1f} µs an entry; loading them took {load_s:.1f} s)"
    return [
        Row.compare(
            f"claim + done in 100 of {BUCKETS} buckets, {plan.many:,} due of other buckets in front",
            times["crowded"],
            times["no others"],
            0.7,
            note=index,
        ),
        Row.compare(
            f"claim + done in 100 of {BUCKETS} buckets", times["no others"], times["claims over all, no index"], 0.5
        ),
        Row.compare(
            f"put_many of {_CLAIMS} with an index", groups["indexed"], groups["no index"], 0.5, note="per entry"
        ),
        *load(directory, plan),
    ]


class _Sharing:
    """A journal from which entries of one range are claimed and finished, and filled up again."""

    def __init__(self, path: Path, size: int, *, by: journal.Range | None) -> None:
        self.store = journal.open(path, durability="interval")
        self.journal = self.store.journal(JOURNAL, buckets=BUCKETS)
        self._by = by
        self._keys = _keys(is_own=True)
        self._put(self._keys, size)

    def load_others(self, size: int) -> float:
        """Due before all of the others."""
        started = time.perf_counter()
        self._put(_keys(is_own=False), size, priority=50)
        self.store.checkpoint()
        return time.perf_counter() - started

    def first_claim(self) -> float:
        """Seconds until it was answered: the index is made."""
        started = time.perf_counter()
        lease = self.journal.claim(consumer="bench", buckets=self._by)
        assert lease is not None
        spent = time.perf_counter() - started
        lease.done()
        self.store.checkpoint()
        return spent

    def claim_and_done(self) -> None:
        claim, by = self.journal.claim, self._by
        for _ in range(_CLAIMS):
            lease = claim(consumer="bench", buckets=by)
            assert lease is not None
            lease.done()

    def refill(self) -> None:
        self._put(self._keys, _CLAIMS)

    def contender(self, name: str) -> Contender:
        return Contender(name, _CLAIMS, self.claim_and_done, self.refill)

    def _put(self, keys: Iterator[str], size: int, priority: int = 100) -> None:
        for start in range(0, size, LOAD_BATCH):
            count = min(LOAD_BATCH, size - start)
            puts = [journal.Put(key, DATA, priority=priority) for key in itertools.islice(keys, count)]
            for result in self.journal.put_many(puts):
                if isinstance(result, Exception):
                    raise result


def _keys(*, is_own: bool) -> Iterator[str]:
    """Keys of the range, or of all others; never the same twice."""
    for number in _numbers:
        key = f"page-{number}"
        if (bucket_of(murmur(key.encode()), BUCKETS) in OWN) is is_own:
            yield key
