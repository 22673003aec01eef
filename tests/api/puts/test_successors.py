"""A put for a key that is processing: kept behind it, never lost, never processed at once with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal import Lease
from journal.testing import ManualClock

Copy = Callable[[journal.Store], Path]


def claimed(pages: journal.Journal, **options: object) -> Lease:
    lease = pages.claim(**options)  # type: ignore[arg-type]
    assert lease is not None
    return lease


@pytest.fixture
def lease(pages: journal.Journal) -> Lease:
    """Key "a" is processing its first data."""
    pages.put("a", "first", priority=50)
    return claimed(pages, lease="10s")


def test_a_successor_waits_for_the_lease(pages: journal.Journal, lease: Lease) -> None:
    """It cannot be claimed, counted or seen as an entry; the entry under the lease stays as it was."""
    before = pages.get("a")
    result = pages.put("a", "next")
    assert result.outcome == "queued"
    assert result.version > lease.version
    assert pages.claim() is None
    assert pages.get("a") == before
    assert pages.count() == 1
    assert pages.statistics()["successors"] == 1


def test_done_makes_the_successor_the_entry(pages: journal.Journal, lease: Lease) -> None:
    """With its own data, place and dates; its version goes on."""
    queued = pages.put("a", "next", priority=70, delay=0)
    lease.done()
    entry = pages.get("a")
    assert entry is not None and (entry.data, entry.priority, entry.status) == ("next", 70, "W")
    assert entry.version > queued.version
    assert pages.statistics()["successors"] == 0
    again = claimed(pages)
    assert (again.data, again.token != lease.token) == ("next", True)


def test_release_merges_the_two(pages: journal.Journal, lease: Lease, clock: ManualClock) -> None:
    """Smallest priority, largest date, the successor's data."""
    pages.put("a", "next", priority=70, delay=500)
    lease.release()
    entry = pages.get("a")
    assert entry is not None
    assert (entry.data, entry.priority, entry.process_date) == ("next", 50, clock.now() + 500)
    assert pages.count() == 1


def test_a_timeout_merges_the_two(pages: journal.Journal, lease: Lease, clock: ManualClock) -> None:
    """The late holder is refused, the newer data stays, and the lost lease counts."""
    pages.put("a", "next", priority=70)
    clock.advance(10_000)
    entry = pages.get("a")
    assert entry is not None and (entry.data, entry.priority, entry.timeouts) == ("next", 50, 1)
    with pytest.raises(journal.LeaseLost):
        lease.done()
    assert pages.get("a") == entry


def test_keep_keeps_what_was_tried(store: journal.Store, clock: ManualClock) -> None:
    """The first stands, when its lease is given back and when it is lost."""
    pages = store.journal("kept", merge="keep")
    pages.put("a", "first")
    lease = claimed(pages, lease="10s")
    assert pages.put("a", "next").outcome == "queued"
    lease.release()
    assert claimed(pages, lease="10s").data == "first"
    pages.put("a", "next")
    clock.advance(10_000)
    again = claimed(pages)
    assert (again.data, again.timeouts) == ("first", 1)
    assert pages.statistics()["successors"] == 0


@pytest.mark.parametrize("how", ["lost", "failed"])
def test_a_key_that_is_put_in_each_round_keeps_its_count(store: journal.Store, clock: ManualClock, how: str) -> None:
    """A put behind an attempt says nothing about it: failures count up, and lost leases bury what was tried."""
    pages = store.journal("counted", timeouts_max=2)
    pages.put("a", 0)
    for n in range(3):
        lease = claimed(pages, lease=1000)
        assert (lease.data, lease.timeouts) == (n, n)
        pages.put("a", n + 1)
        if how == "failed":
            lease.release(failed=True)
        else:
            clock.advance(1000)
    if how == "failed":
        assert claimed(pages).timeouts == 3
        return
    assert [(b.entry.data, b.entry.timeouts) for b in pages.buried()] == [(2, 3)]
    assert [flag.name for flag in store.flags()] == ["timeouts"]
    fresh = claimed(pages)
    assert (fresh.data, fresh.timeouts) == (3, 0)


def test_a_put_onto_a_waiting_entry_forgets_its_failures(pages: journal.Journal, lease: Lease) -> None:
    """Newer data is a new try."""
    lease.release(failed=True)
    pages.put("a", "next")
    assert claimed(pages).timeouts == 0


def test_bury_makes_the_successor_the_entry(pages: journal.Journal, lease: Lease) -> None:
    """The old one is kept apart; retrying it is refused while the newer one lives."""
    pages.put("a", "next")
    lease.bury("bad")
    entry = pages.get("a")
    assert entry is not None and entry.data == "next"
    assert [b.entry.data for b in pages.buried()] == ["first"]
    with pytest.raises(journal.KeyExists):
        pages.retry("a")
    assert [b.entry.data for b in pages.buried()] == ["first"]


def test_more_puts_merge_into_one_successor(pages: journal.Journal, lease: Lease, clock: ManualClock) -> None:
    """Smallest priority, largest date, the last data."""
    pages.put("a", 1, priority=30, delay=900)
    result = pages.put("a", 2, priority=60, delay=100)
    assert (result.outcome, result.priority, result.process_date) == ("queued", 30, clock.now() + 900)
    assert pages.statistics()["successors"] == 1
    lease.done()
    entry = pages.get("a")
    assert entry is not None and (entry.data, entry.priority) == (2, 30)


def test_a_stale_put_does_not_become_a_successor(pages: journal.Journal, lease: Lease, clock: ManualClock) -> None:
    """Older than the entry under the lease, or than the successor: ignored."""
    now = clock.now()
    assert pages.put("a", "stale", insertion_date=now - 1).outcome == "ignored"
    pages.put("a", "next", insertion_date=now + 5)
    assert pages.put("a", "stale", insertion_date=now + 4).outcome == "ignored"
    lease.done()
    entry = pages.get("a")
    assert entry is not None and entry.data == "next"


def test_a_group_may_hold_successors(pages: journal.Journal, lease: Lease) -> None:
    """put_many queues as put does, twice in one group too."""
    results = pages.put_many([journal.Put("a", 1), journal.Put("b", 2), journal.Put("a", 3)])
    assert [r.outcome for r in results if not isinstance(r, Exception)] == ["queued", "inserted", "queued"]
    assert pages.done_many([lease]) == [None]
    entry = pages.get("a")
    assert entry is not None and entry.data == 3


def test_a_successor_keeps_its_own_expiration(pages: journal.Journal, lease: Lease, clock: ManualClock) -> None:
    """Expired when it takes its place: it goes and nothing is handed out."""
    pages.put("a", "short", expiration=clock.now() + 100)
    clock.advance(200)
    lease.done()
    assert pages.claim() is None
    assert pages.get("a") is None


def test_a_successor_survives_a_crash(
    store: journal.Store, pages: journal.Journal, lease: Lease, crashed: Copy
) -> None:
    """Before and after a checkpoint; the lease is still the old one's."""
    pages.put("a", "next")
    for _ in range(2):
        with journal.open(crashed(store), clock=ManualClock(1_700_000_000_000)) as again:
            there = again.journal("pages")
            assert there.claim() is None
            there.done(lease.token)
            entry = there.get("a")
            assert entry is not None and entry.data == "next"
            assert again.check() == []
        store.checkpoint()
