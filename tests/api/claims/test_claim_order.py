"""Who is next: priority, then process date; nothing before its time, nothing twice."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import journal
from journal import Put
from journal.testing import ManualClock
from tests.engine.helpers import collide


def taken(pages: journal.Journal, n: int = 100) -> list[object]:
    return [lease.key for lease in pages.claim_many(n)]


def test_smallest_priority_then_oldest_date(pages: journal.Journal, clock: ManualClock) -> None:
    """The order of work is priority, then process date, however they were put."""
    now = clock.now()
    for key, priority, date in [("c", 10, 5), ("b", 10, 3), ("d", 20, 0), ("a", 0, 9), ("e", 199, 0)]:
        pages.put(key, priority=priority, process_date=now + date)
    clock.advance(10)
    assert taken(pages) == ["a", "b", "c", "d", "e"]
    assert pages.claim() is None


def test_future_entries_wait_for_their_millisecond(pages: journal.Journal, clock: ManualClock) -> None:
    """Due when process date <= now; a future entry of a better priority holds up nobody."""
    pages.put("later", priority=0, delay=1000)
    pages.put("now", priority=150)
    assert taken(pages) == ["now"]
    clock.advance(999)
    assert pages.claim() is None
    clock.advance(1)
    assert taken(pages) == ["later"]


def test_slow_entries_come_when_nothing_else_is_due(pages: journal.Journal) -> None:
    """Priorities from slow_from on are handed out only when nothing else is there."""
    pages.put_many([Put("slow", priority=200), Put("last", priority=255), Put("fast", priority=199)])
    assert taken(pages) == ["fast"]
    assert taken(pages) == ["slow", "last"]


def test_slow_from_is_a_setting(store: journal.Store) -> None:
    """With slow_from=256 nothing is slow; with 0 everything is."""
    none = store.journal("none", slow_from=256)
    none.put_many([Put("slow", priority=255), Put("fast", priority=0)])
    assert taken(none) == ["fast", "slow"]


@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_no_entry_is_leased_twice(store: journal.Store, pages: journal.Journal, clock: ManualClock, n: int) -> None:
    """An entry that was put again below what others made the front is handed out once."""
    now = clock.now()
    pages.put("front")
    for _ in range(3):
        pages.put("older", insertion_date=now - 10, process_date=now - 5)
    keys: list[object] = []
    while got := taken(pages, n):
        keys += got
    assert keys == ["older", "front"]
    assert pages.count(status="P") == len(pages.leases()) == 2


def test_no_colliding_entry_is_leased_twice(
    monkeypatch: pytest.MonkeyPatch, store: journal.Store, pages: journal.Journal
) -> None:
    """The same with keys that share a murmur and change their priority within a group."""
    collide(monkeypatch, 3)
    pages.put_many([Put("a"), Put(b"a", priority=0), Put("a", priority=0), Put("a", priority=0)])
    assert sorted(taken(pages, 3), key=repr) == ["a", b"a"]
    assert store.check() == []


def test_timed_out_entries_are_all_back_at_once(pages: journal.Journal, clock: ManualClock) -> None:
    """However many leases ran out together, the first call after it sees them all waiting."""
    pages.put_many([Put(f"k{i}") for i in range(1000)])
    assert len(pages.claim_many(1000, lease="1s")) == 1000
    clock.advance(1000)
    assert len(pages.claim_many(1000)) == 1000


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from([0, 10, 210]), st.integers(-3, 3)),
        st.tuples(
            st.sampled_from(["claim", "flush", "advance", "done", "release", "checkpoint"]), st.just(0), st.just(0)
        ),
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_one_order_of_what_memory_and_what_lmdb_has(steps: list[tuple[str, int, int]]) -> None:
    """A claim gives the least due entry, whether it is pending, stored, or was released into either."""
    clock = ManualClock(1_000_000)
    with tempfile.TemporaryDirectory() as folder, journal.open(Path(folder) / "s", clock=clock) as store:
        pages = store.journal("pages")
        waiting: dict[str, tuple[int, int]] = {}
        held: list[journal.Lease] = []
        for i, (step, priority, date) in enumerate(steps):
            if step == "put":
                waiting[str(i)] = (priority, clock.now() + date)
                pages.put(str(i), priority=priority, process_date=clock.now() + date)
            elif step == "claim":
                due = [place for place in waiting.values() if place[1] <= clock.now()]
                lease = pages.claim(consumer="c", lease="1d")
                assert (lease is None) == (not due)
                if lease is not None:
                    held.append(lease)
                    place = waiting.pop(str(lease.key))
                    assert place == min(due) == (lease.priority, lease.process_date)
            elif step == "flush":
                assert pages.count() == len(waiting) + len(held)
            elif step == "checkpoint":
                store.checkpoint()
            elif step == "advance":
                clock.advance(1)
            elif held and step == "done":
                held.pop().done()
            elif held:
                lease = held.pop(0)
                lease.release()
                waiting[str(lease.key)] = (lease.priority, clock.now())
        assert store.check() == []
        assert {str(entry.key) for entry in pages.scan(status="W")} == set(waiting)
