"""Statistics: what an operator needs to see, counted where it happens."""

from __future__ import annotations

from pathlib import Path

import pytest

import journal
from journal import Delete, Move, Put
from journal.core.counters import SAMPLE
from journal.core.histogram import BUCKETS, FRESH_MAX, Histogram
from journal.errors import JournalError, Refused
from journal.loads import encode_block
from journal.testing import ManualClock


def verbs(pages: journal.Journal) -> dict[str, dict[str, int]]:
    """The counts that are not 0."""
    found: dict[str, dict[str, int]] = pages.statistics()["verbs"]
    return {verb: kept for verb, counts in found.items() if (kept := {k: n for k, n in counts.items() if n})}


def refuse(act: object, *args: object, **options: object) -> None:
    """It is refused."""
    with pytest.raises(Refused):
        act(*args, **options)  # type: ignore[operator]


def test_the_bounds_are_powers_of_two() -> None:
    """A duration is below the bound of its bucket, and not below the one before it; what is very long is in the last."""
    found = Histogram()
    for duration in (0, 1, 2, 3, 4, 1023, 1024, -5, 1 << 60):
        found.add(duration)
    view = found.view()
    assert view["count"] == 9
    assert view["buckets"][:4] == [[1, 2], [2, 1], [4, 2], [8, 1]]
    assert [1024, 1] in view["buckets"] and [2048, 1] in view["buckets"]
    assert view["buckets"][-1] == [1 << (BUCKETS - 1), 1]
    micro = Histogram(per_ms=1000)
    micro.add(3000)
    assert micro.view() == {"count": 1, "sum_ms": 3.0, "buckets": [[4.096, 1]]}


def test_many_durations_are_all_in_their_buckets() -> None:
    """However they come, one by one or many at once, and whenever one looks: each is counted once."""
    durations = [*range(-3, 3 * FRESH_MAX), 1 << 50]
    one_by_one, at_once = Histogram(), Histogram()
    for number, duration in enumerate(durations, 1):
        one_by_one.add(duration)
        assert one_by_one.count == number
    assert len(one_by_one.fresh) <= FRESH_MAX
    at_once.add_all(durations)
    expected = [0] * BUCKETS
    for duration in durations:
        expected[min(max(0, duration).bit_length(), BUCKETS - 1)] += 1
    view = one_by_one.view()
    assert view == at_once.view() == one_by_one.view()
    assert view["buckets"] == [[1 << i, count] for i, count in enumerate(expected) if count]
    assert view["sum_ms"] == sum(max(0, duration) for duration in durations)


def test_puts_are_counted_by_outcome(pages: journal.Journal) -> None:
    """One by one, in groups, as loads; what is refused too, and nothing twice."""
    pages.put("a", 1)
    pages.put("a", 2)
    pages.put("a", 0, insertion_date=1)
    pages.put("mine", owner="us")
    refuse(pages.put, "mine", owner="them")
    assert pages.claim() is not None
    pages.put("a", 3)
    pages.put_many([Put("b"), Put("c"), Put("mine")])
    pages.put_many([Put("d", b"x"), Put("e", b"y")])
    assert verbs(pages)["put"] == {"inserted": 6, "merged": 1, "ignored": 1, "queued": 1, "refused": 2}
    pages.create("f")
    refuse(pages.create, "f")
    pages.create("f", is_repeatable=True)
    pages.create_many([Put("g"), Put("f")])
    assert verbs(pages)["create"] == {"inserted": 2, "exists": 1, "refused": 2}
    block = encode_block([("h", b"\x01"), ("i", b"\x01")])
    pages.load([block], once=("nightly", 1))
    pages.load([block], once=("nightly", 1))
    assert verbs(pages)["load"]["rows"] == 2 and verbs(pages)["load"]["loads"] == 1


def test_consuming_is_counted_by_outcome(pages: journal.Journal, clock: ManualClock) -> None:
    """Claims, what becomes of leases, and what happens by itself."""
    assert pages.claim() is None and pages.claim_many(3) == []
    for n in range(10):
        pages.put(f"a{n}")
    one = pages.claim(lease="1m")
    assert one is not None
    one.done()
    one.done()
    leases = pages.claim_many(5, lease="1m")
    pages.done_many([leases[0], leases[0]])
    leases[1].extend("2m")
    leases[2].release()
    leases[3].release(failed=True)
    leases[4].bury("no")
    for act in (leases[4].extend, leases[4].release, leases[4].bury, leases[4].done):
        refuse(act)
    pages.retry(leases[4].key)
    refuse(pages.retry, "nothing")
    refuse(pages.discard, "nothing")
    refuse(pages.claim_key, "nothing")
    leases[1].done(next=Put("next"))
    counts = verbs(pages)
    assert counts["claim"] == {"empty": 2, "leased": 6, "refused": 1}
    assert counts["done"] == {"finished": 3, "repeated": 2, "lease_lost": 1}
    assert counts["extend"] == {"extended": 1, "lease_lost": 1}
    assert counts["release"] == {"released": 1, "failed": 1, "lease_lost": 1}
    assert counts["bury"] == {"buried": 1, "lease_lost": 1}
    assert counts["retry"] == {"retried": 1, "refused": 1}
    assert counts["discard"] == {"refused": 1}
    assert counts["put"] == {"inserted": 11}
    pages.put("old", priority=250, expiration=clock.now() + 10)
    assert pages.claim(lease="1s") is not None
    clock.advance(1000)
    assert verbs(pages)["timer"] == {"expired": 1, "leases_lost": 1}


def test_moves_and_deletes_are_counted(pages: journal.Journal) -> None:
    """One by one and in groups."""
    pages.put_many([Put("a"), Put("b"), Put("c"), Put("d")])
    pages.move("a", delay="1s")
    refuse(pages.move, "nothing", delay="1s")
    pages.move_many([Move("b", delay="1s"), Move("nothing", delay="1s")])
    assert pages.delete("a") and not pages.delete("a")
    refuse(pages.delete, "b", version=99)
    pages.delete_many(["b", "nothing", Delete("c", version=99)])
    counts = verbs(pages)
    assert counts["move"] == {"moved": 2, "refused": 2}
    assert counts["delete"] == {"deleted": 2, "absent": 2, "refused": 2}


def test_lateness_and_processing_time_are_measured(pages: journal.Journal, clock: ManualClock) -> None:
    """From the process date to the claim, and from there to done; of single ones and of groups."""
    for n in range(4):
        pages.put(f"a{n}", delay="1s")
    clock.advance(1005)
    one = pages.claim()
    assert one is not None
    clock.advance(95)
    rest = pages.claim_many(3)
    one.done()
    clock.advance(3)
    assert pages.done_many(rest) == [None] * 3
    numbers = pages.statistics()
    assert numbers["lateness"] == {"count": 4, "sum_ms": 305.0, "buckets": [[8, 1], [128, 3]]}
    assert numbers["processing_time"] == {"count": 4, "sum_ms": 104.0, "buckets": [[4, 3], [128, 1]]}


def test_the_oldest_due_entry_is_found_behind_every_priority(pages: journal.Journal, clock: ManualClock) -> None:
    """`next_due` is the head of the order of work; what has waited longest may be of any priority."""
    assert pages.statistics()["oldest_due"] is None and pages.statistics()["oldest_due_ms"] is None
    pages.put("low", priority=200)
    pages.put("ahead", priority=150, delay="1d")
    clock.advance(600_000)
    pages.put("high", priority=10)
    clock.advance(1000)
    numbers = pages.statistics()
    assert clock.now() - numbers["next_due"] == 1000
    assert (numbers["oldest_due"], numbers["oldest_due_ms"]) == (clock.now() - 601_000, 601_000)
    lease = pages.claim_key("low")
    assert pages.statistics()["oldest_due_ms"] == 1000
    lease.done()


def test_syncs_and_puts_are_timed(pages: journal.Journal) -> None:
    """Each sync, and each so many-th put."""
    for n in range(3 * SAMPLE):
        pages.put(f"a{n}")
    numbers = pages.statistics()
    assert numbers["put_time"]["count"] == 3
    assert numbers["sync_time"]["count"] == numbers["syncs"] > 0


def test_a_look_shows_what_is_due(tmp_path: Path, clock: ManualClock) -> None:
    """Who only looks sees the oldest due entry, too; counts are the owner's own."""
    with journal.open(tmp_path / "s", clock=clock) as store:
        store.journal("pages").put("a")
    clock.advance(50)
    with journal.open(tmp_path / "s", clock=clock, readonly=True) as look:
        numbers = look.journal("pages").statistics()
        assert numbers["oldest_due_ms"] == 50
        assert numbers["verbs"]["put"]["inserted"] == 0


def test_merged_journals_count_for_themselves(store: journal.Store) -> None:
    """What happens to one is not counted with another; they share their syncs."""
    one, other = (store.journal(f"small-{n}", merged=True) for n in range(2))
    one.put("a")
    assert other.claim() is None
    assert verbs(one) == {"put": {"inserted": 1}} and verbs(other) == {"claim": {"empty": 1}}
    assert store.statistics()["merged"]["sync_time"]["count"] > 0


def test_a_refusal_of_arguments_alone_is_not_counted(pages: journal.Journal) -> None:
    """It never reached the journal."""
    with pytest.raises(JournalError):
        pages.put("")
    assert verbs(pages) == {}
