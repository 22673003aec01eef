"""Entries that expire: gone at their millisecond, by themselves, but never under a lease."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal import Put
from journal.testing import ManualClock

Copy = Callable[[journal.Store], Path]


def test_a_waiting_entry_goes_at_its_expiration(pages: journal.Journal, clock: ManualClock) -> None:
    """Not a millisecond earlier; everywhere at once."""
    pages.put("a", expiration=clock.now() + 100)
    pages.put("b")
    clock.advance(99)
    assert pages.get("a") is not None
    clock.advance(1)
    assert pages.get("a") is None
    assert [e.key for e in pages.scan()] == ["b"]
    assert pages.count() == 1
    assert pages.delete("a") is False
    assert pages.statistics()["expired"] == 1


def test_an_expired_key_is_free_again(pages: journal.Journal, clock: ManualClock) -> None:
    """A put of it is a new entry, not a merge; create works."""
    pages.put("a", 1, priority=0, expiration=clock.now() + 100)
    clock.advance(100)
    result = pages.put("a", 2)
    assert (result.outcome, result.version, result.priority) == ("inserted", 1, 100)
    pages.put("b", expiration=clock.now() + 100)
    clock.advance(100)
    assert pages.create("b").outcome == "inserted"


def test_an_expiration_that_has_passed_is_gone_at_once(pages: journal.Journal, clock: ManualClock) -> None:
    """It can be put, and nobody gets it."""
    assert pages.put("a", expiration=clock.now()).outcome == "inserted"
    assert pages.claim() is None
    assert pages.get("a") is None
    assert pages.count() == 0


def test_a_lease_outlives_the_expiration(pages: journal.Journal, clock: ManualClock) -> None:
    """An active lease is a contract: the entry stays until it ends, and done works."""
    pages.put("a", expiration=clock.now() + 100)
    lease = pages.claim(lease="1s")
    assert lease is not None
    clock.advance(500)
    entry = pages.get("a")
    assert entry is not None and entry.status == "P"
    lease.done()
    assert pages.statistics()["expired"] == 0


@pytest.mark.parametrize("end", ["release", "timeout"])
def test_an_expired_entry_goes_when_its_lease_ends_badly(pages: journal.Journal, clock: ManualClock, end: str) -> None:
    """Nobody gets it again; no timeout is counted and nothing is buried."""
    pages.put("a", expiration=clock.now() + 100)
    lease = pages.claim(lease="1s")
    assert lease is not None
    clock.advance(500)
    if end == "release":
        lease.release()
    else:
        clock.advance(500)
    assert pages.claim() is None
    assert pages.get("a") is None
    assert pages.count() == 0
    assert pages.buried() == []


def test_a_released_entry_still_expires(pages: journal.Journal, clock: ManualClock) -> None:
    """The lease put it out of the index, the release puts it back."""
    pages.put("a", expiration=clock.now() + 1000)
    lease = pages.claim(lease="1s")
    assert lease is not None
    lease.release(delay="1h")
    clock.advance(999)
    assert pages.get("a") is not None
    clock.advance(1)
    assert pages.get("a") is None


def test_many_expire_together(pages: journal.Journal, clock: ManualClock) -> None:
    """More than one step of the timer; the rest stays."""
    now = clock.now()
    pages.put_many([Put(f"k{i}", expiration=now + 10 + i % 2) for i in range(2000)])
    clock.advance(10)
    assert pages.count() == 1000
    assert len(list(pages.scan())) == 1000
    clock.advance(1)
    assert pages.count() == 0


def test_it_expires_while_nobody_calls(
    store: journal.Store, pages: journal.Journal, clock: ManualClock, crashed: Copy
) -> None:
    """The engine's own timer removes the row: a look at a copy of the files, with a clock long before, shows it gone."""
    pages.put("a", expiration=clock.now() + 100)
    clock.advance(100)
    store.checkpoint()
    with journal.open(crashed(store), readonly=True, clock=ManualClock(1)) as look:
        assert look.journal("pages").count() == 0


def test_an_entry_that_expired_while_the_store_was_down_is_gone(
    store: journal.Store, pages: journal.Journal, clock: ManualClock, crashed: Copy
) -> None:
    """The first call after the open does not see it."""
    pages.put("a", expiration=clock.now() + 100)
    pages.put("b")
    later = ManualClock(clock.now() + 100)
    with journal.open(crashed(store), clock=later) as again:
        assert [e.key for e in again.journal("pages").scan()] == ["b"]
        assert again.check() == []


def test_the_machine_clock_expires_too(tmp_path: Path) -> None:
    """Without a manual clock the keeper wakes by itself and a worker never sees the entry."""
    with journal.open(tmp_path / "s") as opened:
        pages = opened.journal("pages")
        now = opened.statistics()["now"]
        pages.put("a", expiration=now + 30, delay="1h")
        pages.put("b", delay=60)
        lease = next(pages.work())
        assert lease.key == "b"
        assert pages.get("a") is None
        lease.done()


def test_an_entry_and_its_successor_expire_with_the_lease(
    store: journal.Store, pages: journal.Journal, clock: ManualClock
) -> None:
    """All in one tick: the lease is lost, the two merge, and what they became is over as well."""
    pages.put("a", 1, expiration=clock.now() + 500)
    assert pages.claim(lease=1) is not None
    assert pages.put("a", 2, expiration=clock.now() + 500).outcome == "queued"
    clock.advance(1000)
    assert pages.count() == 0 and pages.statistics()["expired"] == 1
    assert store.check() == []


def test_a_successor_that_has_expired_goes_with_the_lost_lease(pages: journal.Journal, clock: ManualClock) -> None:
    """The lease is taken back, the two merge, and what came of it has expired: all in one moment."""
    pages.put("a", 1, expiration=clock.now() + 800)
    pages.claim(lease=500)
    pages.put("a", 2, expiration=clock.now() + 900)
    pages.put("b", 3)
    clock.advance(1000)
    assert pages.get("a") is None
    assert pages.count() == 1
    assert pages.claim().key == "b"
