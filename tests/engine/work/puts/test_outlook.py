"""What is due and what comes next, from the order of work; and the bells of those who wait for it elsewhere."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import journal
from journal.core.buckets import Range
from journal.engine.work.outlook import due_now, outlook
from journal.testing import ManualClock
from tests.engine.helpers import wait_asleep

START = 1_700_000_000_000
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 30), st.sampled_from([0, 7, 100, 200]), st.integers(0, 50)),
        st.tuples(st.just("claim"), st.integers(1, 4)),
        st.tuples(st.just("claim_part"), st.integers(0, 3)),
        st.tuples(st.just("claim_key"), st.integers(0, 30)),
        st.tuples(st.just("release"), st.integers(0, 9), st.integers(0, 40)),
        st.tuples(st.just("done"), st.integers(0, 9)),
        st.tuples(st.just("move"), st.integers(0, 30), st.integers(0, 60)),
        st.tuples(st.just("delete"), st.integers(0, 30)),
        st.tuples(st.just("advance"), st.integers(1, 40)),
        st.tuples(st.just("rotate")),
    ),
    max_size=60,
)


def scanned(pages: journal.Journal) -> tuple[int, int | None]:
    """The same by a look at every entry."""
    now = pages.now()
    dates = [entry.process_date for entry in pages.scan(status="waiting")]
    return sum(date <= now for date in dates), min((date for date in dates if date > now), default=None)


def looked(pages: journal.Journal, limit: int = 10_000) -> tuple[int, int | None]:
    p = pages._backend.p
    with p.lock:
        return due_now(p, p.enter(), limit)


def take(pages: journal.Journal, clock: ManualClock, leases: list[int], step: tuple[Any, ...]) -> None:
    """One step; what the state refuses is no step."""
    try:
        match step:
            case ("put", key, priority, delay):
                pages.put(f"k{key}", b"", priority=priority, delay=delay)
            case ("claim", n):
                leases += [lease.token for lease in pages.claim_many(n, lease=25)]
            case ("claim_part", quarter):
                leases += [
                    lease.token
                    for lease in pages.claim_many(2, lease=25, buckets=Range(quarter * 256, quarter * 256 + 256))
                ]
            case ("claim_key", key):
                leases.append(pages.claim_key(f"k{key}", lease=25).token)
            case ("release", which, delay) if leases:
                pages.release(leases.pop(which % len(leases)), delay=delay)
            case ("done", which) if leases:
                pages.done(leases.pop(which % len(leases)))
            case ("move", key, delay):
                pages.move(f"k{key}", delay=delay)
            case ("delete", key):
                pages.delete(f"k{key}")
            case ("advance", ms):
                clock.advance(ms)
            case ("rotate",):
                pages.rotate()
    except journal.Refused:
        return


@pytest.mark.parametrize("is_merged", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["alone", "merged"])
@settings(max_examples=150)
@given(steps=STEPS, limit=st.integers(1, 5))
def test_it_finds_what_a_scan_finds(
    tmp_path_factory: pytest.TempPathFactory, is_merged: bool, steps: list[tuple[Any, ...]], limit: int
) -> None:
    """Whatever came before: the number that is due, and the next date, are those of a look at every entry."""
    clock = ManualClock(START)
    with journal.open(tmp_path_factory.mktemp("s") / "w.journal", clock=clock, durability="none") as store:
        pages = store.journal("pages", merged=is_merged, timeouts_max=255)
        store.journal("others", merged=is_merged).put("k1", b"")
        leases: list[int] = []
        for step in steps:
            take(pages, clock, leases, step)
            due, following = scanned(pages)
            assert looked(pages) == (due, following)
            some, same = looked(pages, limit)
            assert same == following and min(due, 1) <= some <= min(due, limit)
        assert store.check() == []


def test_no_payload_is_read(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are due, what is stored under their keys is not looked at, and so many keys as were said."""
    pages.put_many([journal.Put(f"k{i}", b"x" * 100) for i in range(500)])
    monkeypatch.setattr("journal.engine.state.reader.decode_entry", lambda *_: pytest.fail("an entry was decoded"))
    assert looked(pages, 100) == (100, None)
    assert looked(pages, 1000) == (500, None)


def test_a_bell_rings_once_for_each_look(pages: journal.Journal, clock: ManualClock) -> None:
    """It rings when something is due earlier than its owner knows, and then not before it has looked again."""
    rung: list[int] = []
    bell = pages._backend.p.due.bell(lambda: rung.append(pages.name == "pages"))
    assert outlook(pages._backend.p, bell) == (START, 0, None) and bell.until is None
    pages.put("a", b"", delay=1000)
    pages.put("b", b"", delay=500)
    assert len(rung) == 1 and bell.until == 0
    assert outlook(pages._backend.p, bell) == (START, 0, START + 500) and bell.until == START + 500
    pages.put("c", b"", delay=700)
    assert len(rung) == 1
    pages.put("d", b"", delay=400)
    assert len(rung) == 2
    assert outlook(pages._backend.p, bell) == (START, 0, START + 400)
    clock.advance(450)
    assert outlook(pages._backend.p, bell) == (START + 450, 1, START + 500)
    bell.close()


def test_a_bell_rings_when_a_lease_is_lost_or_given_back(pages: journal.Journal, clock: ManualClock) -> None:
    """What waits again is due again."""
    rung: list[int] = []
    bell = pages._backend.p.due.bell(lambda: rung.append(1))
    pages.put("a", b"")
    pages.put("b", b"")
    first, second = pages.claim_many(2, lease=1000)
    assert outlook(pages._backend.p, bell).due == 0 and rung == []
    first.release()
    assert len(rung) == 1
    assert outlook(pages._backend.p, bell).due == 1
    clock.advance(1001)
    assert len(rung) == 2
    assert outlook(pages._backend.p, bell).due == 2
    with pytest.raises(journal.LeaseLost):
        second.done()
    bell.close()


def test_a_bell_rings_at_the_end(tmp_path: Path) -> None:
    """Who sleeps when the store is closed is told, and finds out why."""
    rung = threading.Event()
    with journal.open(tmp_path / "w.journal") as store:
        pages = store.journal("pages")
        bell = pages._backend.p.due.bell(rung.set)
        outlook(pages._backend.p, bell)
    assert rung.is_set()
    with pytest.raises(journal.StoreClosed):
        outlook(pages._backend.p, bell)
    bell.close()


def test_a_bell_of_a_dropped_journal(store: journal.Store) -> None:
    """A merged journal that is dropped wakes those who wait for it."""
    rung: list[int] = []
    pages = store.journal("pages", merged=True)
    bell = pages._backend.p.due.bell(lambda: rung.append(1))
    outlook(pages._backend.p, bell)
    store.drop("pages")
    assert rung == [1]
    with pytest.raises(journal.StoreClosed):
        outlook(pages._backend.p, bell)


def test_a_closed_bell_is_silent(pages: journal.Journal) -> None:
    """And costs nothing: nobody sleeps any more."""
    rung: list[int] = []
    bell = pages._backend.p.due.bell(lambda: rung.append(1))
    outlook(pages._backend.p, bell)
    bell.close()
    pages.put("a", b"")
    pages.wake()
    assert rung == [] and not pages._backend.p.sleeping and not pages._backend.p.due.bells


def test_bells_and_workers(pages: journal.Journal) -> None:
    """Both are woken by the same put, each for itself."""
    rung = threading.Event()
    bell = pages._backend.p.due.bell(rung.set)
    taken: list[journal.Lease] = []
    worker = threading.Thread(target=lambda: taken.append(next(pages.work())))
    outlook(pages._backend.p, bell)
    worker.start()
    wait_asleep(worker)
    pages.put("a", b"")
    worker.join(100)
    assert rung.is_set() and taken[0].key == "a"
    bell.close()
    taken[0].done()
