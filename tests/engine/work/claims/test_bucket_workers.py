"""Workers on ranges of buckets: woken by what they may have, and by nothing else."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.testing import ManualClock
from tests.engine.helpers import HANG_S, must_end, poll, wait_asleep
from tests.engine.work.claims.sharing import keys_in


class Worker:
    """A worker on a range, on its own thread."""

    def __init__(self, pages: journal.Journal, part: journal.Range | None) -> None:
        self.keys: list[object] = []
        self.stop = threading.Event()
        self.got = threading.Condition()
        self.thread = threading.Thread(target=self._run, args=(pages, part), daemon=True)
        self.thread.start()

    def _run(self, pages: journal.Journal, part: journal.Range | None) -> None:
        for lease in pages.work(consumer="w", buckets=part, stop=self.stop):
            lease.done()
            with self.got:
                self.keys.append(lease.key)
                self.got.notify_all()

    def until(self, keys: list[str]) -> None:
        with self.got:
            assert self.got.wait_for(lambda: self.keys == keys, HANG_S), f"got only {self.keys}"

    def end(self) -> None:
        self.stop.set()
        must_end(self.thread.join)


def test_a_worker_on_a_range_is_woken_by_its_entries(pages: journal.Journal, clock: ManualClock) -> None:
    """By a put that is due, by the timer, and by a lost lease."""
    part = journal.Range(0, 512)
    keys = keys_in(part, 1024, 3)
    pages.put(keys[2])
    assert pages.claim(lease=5000).key == keys[2]
    worker = Worker(pages, part)
    wait_asleep(worker.thread)
    pages.put(keys[0])
    worker.until([keys[0]])
    pages.put(keys[1], delay=1000)
    wait_asleep(worker.thread)
    clock.advance(1000)
    worker.until(keys[:2])
    wait_asleep(worker.thread)
    clock.advance(4000)
    worker.until(keys)
    worker.end()


@pytest.mark.parametrize("is_over_all", [False, True], ids=["by-range", "over-all"])
def test_workers_on_other_ranges_sleep_on(
    pages: journal.Journal, monkeypatch: pytest.MonkeyPatch, is_over_all: bool
) -> None:
    """An entry wakes those who may have it, and nobody else."""
    monkeypatch.setattr("journal.engine.work.worker.STOP_LOOK_S", 60.0)
    low, high = journal.Range(0, 512), journal.Range(512, 1024)
    workers = [Worker(pages, None if is_over_all else low), Worker(pages, high)]
    for worker in workers:
        wait_asleep(worker.thread)
    looked: list[str] = []
    claims = pages._backend.claims
    real = claims.one

    def claim(consumer: str, lease_ms: int | None, durability: None, part: journal.Range | None, is_idle: bool) -> Any:
        if part is not None:
            looked.append(str(part))
        return real(consumer, lease_ms, durability, part, is_idle)

    monkeypatch.setattr(claims, "one", claim)
    keys = keys_in(low, 1024, 3)
    for i, key in enumerate(keys):
        pages.put(key)
        workers[0].until(keys[: i + 1])
        wait_asleep(workers[0].thread)
    assert set(looked) == (set() if is_over_all else {"0-511"})
    assert workers[1].keys == []
    for worker in workers:
        worker.stop.set()
    pages.wake()
    for worker in workers:
        worker.end()


def test_a_second_worker_is_woken_while_the_first_is_busy(pages: journal.Journal) -> None:
    """An entry behind the one that the first took comes to the second at once."""
    part = journal.Range(0, 512)
    first, second = keys_in(part, 1024, 2)
    worker = Worker(pages, part)
    wait_asleep(worker.thread)
    with worker.got:  # the worker cannot go on after its first entry
        pages.put(first, priority=10)
        poll(lambda: pages.get(first) is None, "the first worker does not take its entry")  # or the second one may
        busy = Worker(pages, part)
        wait_asleep(busy.thread)
        pages.put(second, priority=10)
        busy.until([second])
    worker.until([first])
    worker.end()
    busy.end()


def test_a_worker_survives_that_its_range_goes(pages: journal.Journal) -> None:
    """Others claim by so many ranges that its own is forgotten: it looks again, and is told again."""
    part = journal.Range(0, 512)
    worker = Worker(pages, part)
    wait_asleep(worker.thread)
    for low in range(20):
        pages.claim(buckets=journal.Range(low, low + 900))
    wait_asleep(worker.thread)
    pages.put(keys_in(part, 1024, 1)[0])
    worker.until(keys_in(part, 1024, 1))
    worker.end()


def test_a_worker_on_a_range_ends_with_the_store(tmp_path: Path, clock: ManualClock) -> None:
    """It does not hang in its sleep."""
    with journal.open(tmp_path / "s", clock=clock) as store:
        worker = Worker(store.journal("pages"), journal.Range(0, 9))
        wait_asleep(worker.thread)
    must_end(worker.thread.join)
