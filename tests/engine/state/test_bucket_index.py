"""The index by bucket: made when it is first needed, while others work; kept through crashes; found bad when it is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.engine.state.range_orders import Ranges
from journal.engine.work import bucket_index_build
from journal.testing import ManualClock
from tests.engine.helpers import HANG_S, must_end
from tests.engine.work.claims.sharing import bucket, due_in, state


def test_no_index_without_ranges(store: journal.Store, pages: journal.Journal) -> None:
    """Who claims over all pays nothing: no row, no note."""
    pages.put_many([journal.Put(f"k{n}") for n in range(100)])
    pages.put("one")
    pages.claim().done()
    store.checkpoint()
    rows = state(pages).active
    assert rows.index is None
    assert not list(rows.all(rows.buckets))
    assert not isinstance(state(pages).order, Ranges)


def test_others_work_while_the_index_is_made(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between any two steps; what they put, take and finish is in the index in the end as it must be."""
    monkeypatch.setattr(bucket_index_build, "STEP", 20)
    pages.put_many([journal.Put(f"k{n}", n) for n in range(400)])
    part = journal.Range(0, 200)
    numbers = iter(range(1000, 10**6))
    pauses = []

    def meanwhile(seconds: float) -> None:
        pauses.append(seconds)
        pages.put(f"k{next(numbers)}", priority=0)
        pages.put(f"k{next(numbers)}", priority=200)
        pages.claim().done()
        pages.claim_many(2)
        waiting = list(pages.scan(status="W"))
        pages.delete(waiting[len(waiting) // 2].key)
        pages.move(waiting[-1].key, priority=5)

    monkeypatch.setattr(bucket_index_build, "sleep", meanwhile)
    first = pages.claim(buckets=part)
    assert len(pauses) > 15
    expected = due_in(pages, part, pages._backend.p.time.now())
    assert bucket(first.key, 1024) in part
    assert [lease.key for lease in pages.claim_many(1000, buckets=part)] == expected


def test_making_the_index_gives_the_lock_away(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that wants it between two steps gets it."""
    monkeypatch.setattr(bucket_index_build, "STEP", 10)
    monkeypatch.setattr(bucket_index_build, "PAUSE_S", 0.01)
    pages.put_many([journal.Put(f"k{n}", n) for n in range(500)])
    began = threading.Event()
    real = bucket_index_build._step
    monkeypatch.setattr(bucket_index_build, "_step", lambda p: (began.set(), real(p)))
    claiming = threading.Thread(target=lambda: pages.claim(buckets=journal.Range(0, 9)), daemon=True)
    claiming.start()
    assert began.wait(HANG_S)
    must_end(lambda: pages.put("urgent", priority=0))
    assert not all(rows.index.is_complete for rows in state(pages).generations)
    must_end(claiming.join)


def test_an_interrupted_index_is_gone_on_with(
    store: journal.Store,
    pages: journal.Journal,
    monkeypatch: pytest.MonkeyPatch,
    crashed: Callable[[journal.Store], Path],
    clock: ManualClock,
) -> None:
    """After a crash in the middle, from where a checkpoint had it; entries that came and went meanwhile included."""
    monkeypatch.setattr(bucket_index_build, "STEP", 50)
    pages.put_many([journal.Put(f"k{n}", n) for n in range(300)])
    with pages._backend.p.lock:
        pages._backend.p.enter()
        bucket_index_build._step(pages._backend.p)
        bucket_index_build._step(pages._backend.p)
    store.checkpoint()
    done = pages.claim_many(30)
    pages.done_many(done)
    pages.put("new", priority=0)
    pages.put("late", priority=200)
    with journal.open(crashed(store), clock=clock) as again:
        found = again.journal("pages")
        index = state(found).active.index
        assert index is not None and not index.is_complete
        assert again.check() == []
        part = journal.Range(0, 700)
        expected = due_in(found, part, clock.now())
        assert [lease.key for lease in found.claim_many(1000, buckets=part)] == expected
        assert again.check() == []


def test_an_interrupt_while_the_index_is_made_is_mended(
    pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A KeyboardInterrupt in the middle of a step leaves nothing half done."""
    pages.put_many([journal.Put(f"k{n}", n) for n in range(50)])
    part = journal.Range(0, 512)
    real = bucket_index_build.extend

    def cut_short(*args: Any) -> int:
        real(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(bucket_index_build, "extend", cut_short)
    with pytest.raises(KeyboardInterrupt):
        pages.claim(buckets=part)
    monkeypatch.setattr(bucket_index_build, "extend", real)
    expected = due_in(pages, part, pages._backend.p.time.now())
    assert [lease.key for lease in pages.claim_many(50, buckets=part)] == expected


def test_a_new_generation_begins_with_an_index(store: journal.Store, pages: journal.Journal) -> None:
    """Nothing is to be made again after a rotation."""
    pages.put("a")
    pages.claim(buckets=journal.Range(0, 9))
    pages.rotate()
    pages.put("b")
    store.checkpoint()
    assert all(rows.index.is_complete for rows in state(pages).generations)
    assert sum(len(list(rows.all(rows.buckets))) for rows in state(pages).generations) == 2


def test_the_index_is_there_after_a_reopening(tmp_path: Path, clock: ManualClock) -> None:
    """It is committed with the rows."""
    part = journal.Range(0, 512)
    with journal.open(tmp_path / "s", clock=clock) as store:
        pages = store.journal("pages")
        pages.put_many([journal.Put(f"k{n}", n) for n in range(50)])
        pages.claim(buckets=part).release()
    with journal.open(tmp_path / "s", clock=clock) as store:
        pages = store.journal("pages")
        assert all(rows.index.is_complete for rows in state(pages).generations)
        expected = due_in(pages, part, clock.now())
        assert [lease.key for lease in pages.claim_many(50, buckets=part)] == expected
        assert store.check() == []


def test_a_readonly_store_gives_nothing_out(
    store: journal.Store, pages: journal.Journal, crashed: Callable[[journal.Store], Path]
) -> None:
    """By a range no more than over all; and it can be checked, its index included."""
    pages.put("a")
    pages.claim(buckets=journal.Range(0, 9))
    store.checkpoint()
    with journal.open(crashed(store), readonly=True) as look:
        found = look.journal("pages")
        for verb in (
            lambda: found.claim(buckets=journal.Range(0, 9)),
            lambda: found.claim_many(3, buckets=journal.Range(0, 9)),
        ):
            with pytest.raises(journal.ReadOnly):
                verb()
        assert look.check() == []
        assert found.count() == 1


def test_the_check_finds_a_bad_index(store: journal.Store, pages: journal.Journal) -> None:
    """A row too few, a row too many."""
    pages.put_many([journal.Put(f"k{n}", n) for n in range(20)])
    pages.claim(buckets=journal.Range(0, 9))
    rows = state(pages).active
    with pages._backend.p.lock:
        key, _ = next(rows.all(rows.buckets))
        rows.delete(key, db=rows.buckets)
        rows.put(key[:-1] + b"\7", b"", db=rows.buckets)
    assert [line for line in store.check() if "is missing" in line and "buckets" in line]
    assert [line for line in store.check() if "should not be there" in line and "buckets" in line]
    with pages._backend.p.lock:
        rows.delete(key[:-1] + b"\7", db=rows.buckets)
        rows.put(key, b"", db=rows.buckets)


def test_a_dropped_journal_leaves_no_index(store: journal.Store) -> None:
    """One that is declared again under its name may have other buckets."""
    for buckets in (10, 20):
        pages = store.journal("short", merged=True, buckets=buckets)
        pages.put_many([journal.Put(f"k{n}", n) for n in range(50)])
        part = journal.Range(0, 7)
        expected = due_in(pages, part, pages._backend.p.time.now())
        assert [lease.key for lease in pages.claim_many(50, buckets=part)] == expected
        store.checkpoint()
        assert store.check() == []
        store.drop("short")
    assert store.check() == []


def test_an_index_that_was_only_made_is_kept(
    store: journal.Store, pages: journal.Journal, crashed: Callable[[journal.Store], Path], clock: ManualClock
) -> None:
    """Although no entry came or went since."""
    pages.put("a")
    store.checkpoint()
    part = journal.Range(0, 512) if bucket("a", 1024) >= 512 else journal.Range(512, 1024)
    assert pages.claim(buckets=part) is None
    store.checkpoint()
    with journal.open(crashed(store), clock=clock) as again:
        found = state(again.journal("pages")).active.index
        assert found is not None and found.is_complete
        assert again.check() == []


def test_an_index_that_was_empty_goes_on(
    store: journal.Store, crashed: Callable[[journal.Store], Path], clock: ManualClock
) -> None:
    """A merged journal that had no entries at a checkpoint, and has some at the next."""
    pages = store.journal("short", merged=True)
    part = journal.Range(0, 512)
    for keys in (range(20), range(20, 40)):
        pages.put_many([journal.Put(f"k{n}", n) for n in keys])
        assert pages.claim(buckets=part) is not None
        store.checkpoint()
        with journal.open(crashed(store), clock=clock) as again:
            assert state(again.journal("short")).active.index is not None
            assert again.check() == []
        pages.done_many(pages.leases() + pages.claim_many(50))
        store.checkpoint()
        with journal.open(crashed(store), clock=clock) as again:
            assert state(again.journal("short")).active.index is None
            assert again.check() == []


def test_an_index_without_room_is_refused(pages: journal.Journal) -> None:
    """A store that is full says so; claims over all go on."""
    pages.put_many([journal.Put(f"k{n}", n) for n in range(50)])
    with pages._backend.p.lock:
        room, pages._backend.p.checkpoints.changes_room = pages._backend.p.checkpoints.changes_room, 0
    with pytest.raises(journal.StoreFull, match="map_bytes"):
        pages.claim(buckets=journal.Range(0, 512))
    assert pages.claim() is not None
    with pages._backend.p.lock:
        pages._backend.p.checkpoints.changes_room = room
    assert pages.claim(buckets=journal.Range(0, 512)) is not None
