"""
The hot path in process, under pytest-benchmark: `pytest benchmarks/test_hot_path.py`.

For comparing two versions of the code (`--benchmark-autosave`, `--benchmark-compare`). Nothing asserts a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pytest_benchmark")

from benchmarks.measure import DATA
from benchmarks.ours import LONG_LEASE, Ours

ROUNDS = 2_000


@pytest.fixture(params=["none", "interval", "full"])
def ours(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ours]:
    queue = Ours(tmp_path / "store", request.param)
    yield queue
    queue.close()


def test_put(benchmark: Any, ours: Ours) -> None:
    """A put of a new key."""
    benchmark.pedantic(ours.put, args=(DATA,), rounds=ROUNDS)


def test_merge(benchmark: Any, ours: Ours) -> None:
    """A put of a key that waits already."""
    benchmark.pedantic(ours.journal.put, args=("same", DATA), rounds=ROUNDS)


def test_claim(benchmark: Any, ours: Ours) -> None:
    """A claim of a due entry."""
    ours.journal.put_many(ours.fresh(ROUNDS))
    benchmark.pedantic(ours.get, rounds=ROUNDS)


def test_done(benchmark: Any, ours: Ours) -> None:
    """The done of a lease."""
    ours.journal.put_many(ours.fresh(ROUNDS))
    leases = iter(ours.journal.claim_many(ROUNDS, consumer="bench", lease=LONG_LEASE))
    benchmark.pedantic(ours.ack, setup=lambda: ((next(leases),), {}), rounds=ROUNDS)


def test_cycle(benchmark: Any, ours: Ours) -> None:
    """A put, its claim and its done, one after the other."""

    def cycle() -> None:
        ours.put(DATA)
        ours.ack(ours.get())

    benchmark.pedantic(cycle, rounds=ROUNDS)
