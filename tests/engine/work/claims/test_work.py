"""Workers: woken by a put, by the timer, by a lost lease; slow work only when idle; an end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal.testing import ManualClock
from tests.engine.helpers import HANG_S, must_end, wait_asleep


class Worker:
    """A worker on its own thread, and the keys that it got."""

    def __init__(self, pages: journal.Journal, **options: object) -> None:
        self.keys: list[object] = []
        self.stop = threading.Event()
        self._pages = pages
        self._got = threading.Condition()
        self._thread = threading.Thread(target=self._run, kwargs=options, daemon=True)
        self._thread.start()

    def _run(self, **options: object) -> None:
        for lease in self._pages.work(stop=self.stop, **options):  # type: ignore[arg-type]
            lease.done()
            with self._got:
                self.keys.append(lease.key)
                self._got.notify_all()

    def until(self, condition: Callable[[list[object]], bool]) -> None:
        with self._got:
            assert self._got.wait_for(lambda: condition(self.keys), HANG_S), f"got only {self.keys}"

    def sleeps(self) -> None:
        """Return when it sleeps."""
        wait_asleep(self._thread)

    def end(self) -> None:
        self.stop.set()
        must_end(self._thread.join)


def test_a_put_wakes_a_sleeping_worker(pages: journal.Journal) -> None:
    """Work that is due comes at once."""
    worker = Worker(pages)
    worker.sleeps()
    pages.put("a")
    worker.until(lambda keys: keys == ["a"])
    worker.end()


def test_the_timer_wakes_a_sleeping_worker(pages: journal.Journal, clock: ManualClock) -> None:
    """Work for later comes at its millisecond and not before."""
    pages.put("later", delay=1000)
    worker = Worker(pages)
    worker.sleeps()
    clock.advance(999)
    worker.sleeps()
    assert worker.keys == []
    clock.advance(1)
    worker.until(lambda keys: keys == ["later"])
    worker.end()


def test_a_lost_lease_wakes_a_sleeping_worker(pages: journal.Journal, clock: ManualClock) -> None:
    """An entry whose holder fell silent comes to the next one by itself."""
    pages.put("a")
    lease = pages.claim(lease=500)
    assert lease is not None
    worker = Worker(pages)
    worker.sleeps()
    clock.advance(500)
    worker.until(lambda keys: keys == ["a"])
    worker.end()


def test_stop_ends_a_sleeping_worker(pages: journal.Journal) -> None:
    """Setting the event is enough."""
    worker = Worker(pages)
    worker.sleeps()
    worker.end()


@pytest.mark.parametrize("delay", [None, "1h"])
def test_closing_the_store_ends_a_sleeping_worker(tmp_path: Path, clock: ManualClock, delay: str | None) -> None:
    """A worker's loop ends by itself when its store closes, whether it sleeps for ever or until a date."""
    opened = journal.open(tmp_path / "s", clock=clock)
    pages = opened.journal("pages")
    if delay is not None:
        pages.put("later", delay=delay)
    ended = threading.Event()

    def work() -> None:
        for lease in pages.work():  # no stop event: nothing but the close can end it
            lease.done()
        ended.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    wait_asleep(thread)
    must_end(opened.close)
    assert ended.wait(HANG_S)
    with journal.open(tmp_path / "s", clock=clock) as again:
        assert again.journal("pages").count() == (delay is not None)
        assert again.check() == []


def test_closing_the_store_ends_a_worker_in_the_middle(tmp_path: Path) -> None:
    """The lease in its hands cannot be finished any more; its loop ends; the lease is there at the next opening."""
    opened = journal.open(tmp_path / "s")
    pages = opened.journal("pages")
    pages.put("a")
    pages.put("b")
    leases = pages.work(consumer="me")
    lease = next(leases)
    opened.close()
    with pytest.raises(journal.StoreClosed):
        lease.done()
    assert next(leases, None) is None
    with journal.open(tmp_path / "s") as again:
        there = again.journal("pages")
        assert [x.token for x in there.leases(consumer="me")] == [lease.token]
        there.done(lease.token)
        assert [e.key for e in there.scan()] == ["b"]


def test_two_workers_that_sleep_until_one_date_are_woken_again(pages: journal.Journal, clock: ManualClock) -> None:
    """One takes the work and sleeps again, perhaps before the other has even woken: the next put wakes somebody, every time."""
    workers = [Worker(pages), Worker(pages)]

    def all_keys() -> list[object]:
        return workers[0].keys + workers[1].keys

    for n in range(25):
        pages.put(f"x{n}", delay=1000)
        for worker in workers:
            worker.sleeps()
        clock.advance(1000)
        pages.put(f"y{n}")
        for key in (f"x{n}", f"y{n}"):
            gone = threading.Event()
            for _ in range(int(HANG_S / 0.001)):
                if key in all_keys():
                    gone.set()
                    break
                gone.wait(0.001)
            assert gone.is_set(), f"nobody came for {key}"
    for worker in workers:
        worker.end()
    assert len(all_keys()) == 50
