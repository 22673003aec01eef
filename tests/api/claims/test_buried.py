"""Given up on: by a person or by the limit, with a flag; retried or discarded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal.testing import ManualClock

Copy = Callable[[journal.Store], Path]


def bury(pages: journal.Journal, reason: str = "") -> None:
    lease = pages.claim()
    assert lease is not None
    lease.bury(reason)


def time_out(pages: journal.Journal, clock: ManualClock) -> None:
    assert pages.claim(lease=10) is not None
    clock.advance(10)


def test_a_buried_entry_is_kept_apart(store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """With its reason and date, not claimable, not an entry; a person's bury raises no flag."""
    pages.put("a", {"x": 1}, priority=7)
    bury(pages, "unreadable")
    (found,) = pages.buried()
    assert (found.reason, found.date) == ("unreadable", clock.now())
    assert (found.entry.key, found.entry.data, found.entry.priority) == ("a", {"x": 1}, 7)
    assert (pages.get("a"), pages.claim(), pages.count()) == (None, None, 0)
    assert store.flags() == []


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_the_limit_buries_and_raises_a_flag(store: journal.Store, clock: ManualClock, limit: int) -> None:
    """timeouts_max times it comes back; the next time it is given up, by the timer, and a person is told."""
    pages = store.journal("pages", timeouts_max=limit)
    pages.put("a", 1)
    for n in range(limit):
        time_out(pages, clock)
        entry = pages.get("a")
        assert entry is not None and entry.timeouts == n + 1
    assert store.flags() == []
    time_out(pages, clock)
    assert pages.get("a") is None
    assert pages.claim() is None
    (found,) = pages.buried()
    assert (found.entry.key, found.entry.timeouts) == ("a", limit + 1)
    (flag,) = store.flags()
    assert (flag.journal, flag.count, flag.raised) == ("pages", 1, clock.now())
    assert "a" in flag.message


def test_a_flag_counts_until_it_is_lowered(store: journal.Store, clock: ManualClock) -> None:
    """One flag, raised once, counted twice; lowering it changes no entry; the next one raises it again."""
    pages = store.journal("pages", timeouts_max=0)
    pages.put("a")
    pages.put("b")
    time_out(pages, clock)
    raised = clock.now()
    time_out(pages, clock)
    (flag,) = store.flags()
    assert (flag.count, flag.raised, flag.modified) == (2, raised, clock.now())
    store.lower(flag)
    assert store.flags() == []
    assert len(pages.buried()) == 2
    with pytest.raises(journal.NotFound):
        store.lower(flag)
    pages.put("c")
    time_out(pages, clock)
    assert [f.count for f in store.flags()] == [1]


def test_retry_lets_it_wait_again(pages: journal.Journal, clock: ManualClock) -> None:
    """Due now, its timeouts forgotten, everything else as it was."""
    pages.put("a", 1, priority=7, owner="group")
    time_out(pages, clock)
    bury(pages)
    clock.advance(1000)
    result = pages.retry("a")
    assert (result.process_date, result.priority) == (clock.now(), 7)
    entry = pages.get("a")
    assert entry is not None
    assert (entry.data, entry.timeouts, entry.owner, entry.status) == (1, 0, "group", "W")
    assert entry.insertion_date == clock.now() - 1010
    assert pages.buried() == []
    assert pages.claim() is not None


def test_retry_of_nothing_is_refused(pages: journal.Journal) -> None:
    """NotFound, for discard too; a waiting entry is not a buried one."""
    pages.put("a")
    for verb in (pages.retry, pages.discard):
        with pytest.raises(journal.NotFound):
            verb("a")
    assert pages.count() == 1


def test_retry_is_refused_while_a_newer_entry_lives(pages: journal.Journal) -> None:
    """KeyExists; both stay as they are until the newer one is done."""
    pages.put("a", "old")
    bury(pages)
    pages.put("a", "new")
    with pytest.raises(journal.KeyExists):
        pages.retry("a")
    entry = pages.get("a")
    assert entry is not None and entry.data == "new"
    lease = pages.claim()
    assert lease is not None
    lease.done()
    pages.retry("a")
    entry = pages.get("a")
    assert entry is not None and entry.data == "old"


def test_a_key_may_be_buried_twice(pages: journal.Journal, clock: ManualClock) -> None:
    """Oldest first in the list; retry and discard take the last one."""
    for data in (1, 2, 3):
        pages.put("a", data)
        bury(pages, str(data))
        clock.advance(1)
    assert [b.reason for b in pages.buried()] == ["1", "2", "3"]
    pages.discard("a")
    assert [b.reason for b in pages.buried()] == ["1", "2"]
    pages.retry("a")
    entry = pages.get("a")
    assert entry is not None and entry.data == 2
    assert [b.reason for b in pages.buried()] == ["1"]


def test_a_retried_entry_does_not_expire_at_once(pages: journal.Journal, clock: ManualClock) -> None:
    """An expiration that passed while it was buried is lifted; one ahead is kept."""
    for key, life in (("a", 100), ("b", 5000)):
        pages.put(key, expiration=clock.now() + life)
        bury(pages)
    clock.advance(1000)
    pages.retry("a")
    pages.retry("b")
    assert pages.count() == 2
    clock.advance(4000)
    assert [e.key for e in pages.scan()] == ["a"]


def test_buried_entries_and_flags_survive_a_crash(store: journal.Store, clock: ManualClock, crashed: Copy) -> None:
    """Before and after a checkpoint."""
    pages = store.journal("pages", timeouts_max=0)
    pages.put("a")
    time_out(pages, clock)
    pages.put("b")
    bury(pages, "bad")
    for _ in range(2):
        with journal.open(crashed(store), clock=clock) as again:
            there = again.journal("pages")
            assert sorted(b.entry.key for b in there.buried()) == ["a", "b"]
            assert [f.count for f in again.flags()] == [1]
            there.retry("a")
            there.discard("b")
            assert again.check() == []
        store.checkpoint()


def test_the_counter_saturates(store: journal.Store, clock: ManualClock) -> None:
    """At 255, with the largest limit: never buried, never more than a byte."""
    pages = store.journal("pages", timeouts_max=255)
    pages.put("a")
    for _ in range(258):
        time_out(pages, clock)
    entry = pages.get("a")
    assert entry is not None and entry.timeouts == 255
    assert pages.buried() == []
