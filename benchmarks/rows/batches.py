"""A thousand at a time, against LMDB writing the same rows in one synced transaction."""

from __future__ import annotations

from pathlib import Path

from benchmarks.measure import Contender, interleave, say
from benchmarks.ours import LONG_LEASE, Ours
from benchmarks.plan import Plan
from benchmarks.raw import Batch, RawIndex
from benchmarks.table import Row


class _OurBatches:
    """Batches through our engine; the puts of a round are what its claims then take."""

    def __init__(self, path: Path, size: int) -> None:
        self._ours, self._size = Ours(path, "full"), size
        self._puts = self._ours.fresh(size)
        self.close = self._ours.close

    def put(self) -> None:
        self._ours.journal.put_many(self._puts)

    def claim_and_done(self) -> None:
        leases = self._ours.journal.claim_many(self._size, consumer="bench", lease=LONG_LEASE)
        if len(leases) != self._size:
            raise RuntimeError(f"claimed {len(leases)} of {self._size} entries")
        self._ours.journal.done_many(leases)

    def prepare(self) -> None:
        self._puts = self._ours.fresh(self._size)


class _RawBatches:
    def __init__(self, path: Path, size: int) -> None:
        self._index, self._size = RawIndex(path), size
        self._batch = Batch.of(size)
        self.close = self._index.close

    def put(self) -> None:
        self._index.put(self._batch)

    def claim_and_done(self) -> None:
        self._index.claim(self._batch)
        self._index.done(self._batch)

    def prepare(self) -> None:
        self._batch = Batch.of(self._size)


def batches(directory: Path, plan: Plan) -> list[Row]:
    """One round puts a batch on each side and then takes it away again, so neither grows."""
    size = plan.batch
    say(f"put_many({size}), claim_many + done_many({size})")
    ours, raw = _OurBatches(directory / "batches", size), _RawBatches(directory / "raw.mdb", size)
    put, take = ("put", "claim_many + done_many")
    times = interleave(
        [
            Contender(f"ours, {put}", size, ours.put),
            Contender(f"raw LMDB, {put}", size, raw.put),
            Contender(f"ours, {take}", size, ours.claim_and_done, ours.prepare),
            Contender(f"raw LMDB, {take}", size, raw.claim_and_done, raw.prepare),
        ],
        plan.batch_rounds,
        keep_order=True,
    )
    ours.close()
    raw.close()
    note = "per entry"
    return [
        Row.compare(f"full: put_many({size})", times[f"ours, {put}"], times[f"raw LMDB, {put}"], 0.4, note=note),
        Row.compare(f"full: {take}({size})", times[f"ours, {take}"], times[f"raw LMDB, {take}"], 0.4, note=note),
    ]
