"""Buckets dealt to consumers as they come, go and fall silent."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

import journal
from journal import Consumer, Put, Range
from journal.core.buckets import bucket_of
from journal.core.entry.keys import key_bytes, murmur
from journal.roles.bucket_assignment import BucketAssignment, assignment_of
from journal.testing import ManualClock
from tests.roles.consuming import brief, pass_time, taken


class Seat:
    """A consumer that only keeps what it was dealt."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dealt: Range | None = None

    def use(self, dealt: Range | None) -> None:
        self.dealt = dealt


@pytest.fixture
def dealing(pages: journal.Journal) -> BucketAssignment:
    found = assignment_of(pages._ground())
    found.buckets = 10
    return found


def test_sizes_differ_by_one_at_most(dealing: BucketAssignment) -> None:
    """Ten buckets, three consumers; and consumers that come or go."""
    seats = [Seat(name) for name in "abc"]
    for seat in seats:
        dealing.enter(seat)
        dealing.sit(seat)
    assert sorted(str(seat.dealt) for seat in seats) == ["0-3", "4-6", "7-9"]
    dealing.rise(seats[1])
    assert seats[1].dealt is None
    assert sorted(len(seat.dealt) for seat in seats if seat.dealt is not None) == [5, 5]


def test_more_consumers_than_buckets(dealing: BucketAssignment) -> None:
    """The rest get none, until a consumer goes."""
    seats = [Seat(f"{n}") for n in range(11)]
    for seat in seats:
        dealing.enter(seat)
        dealing.sit(seat)
    assert [seat.dealt for seat in seats].count(None) == 1
    dealing.leave(seats[0])
    assert [seat.dealt for seat in seats[1:]].count(None) == 0


def test_sitting_twice_and_rising_twice(dealing: BucketAssignment) -> None:
    """Change nothing."""
    seat = Seat("a")
    dealing.enter(seat)
    dealing.rise(seat)
    dealing.sit(seat)
    dealing.sit(seat)
    assert dealing.ranges() == {"a": Range(0, 10)}
    dealing.rise(seat)
    dealing.rise(seat)
    assert dealing.ranges() == {}


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=40), st.integers(1, 12))
def test_whoever_comes_and_goes(events: list[tuple[bool, int]], buckets: int) -> None:
    """What is dealt is disjoint and complete, and each consumer has what the assignment says."""
    dealing = BucketAssignment(buckets)
    seats = [Seat(f"{n}") for n in range(7)]
    for seat in seats:
        dealing.enter(seat)
    sitting: set[int] = set()
    for is_sitting, n in events:
        (dealing.sit if is_sitting else dealing.rise)(seats[n])
        (sitting.add if is_sitting else sitting.discard)(n)
        assert dealing.ranges() == {seats[k].name: seats[k].dealt for k in sitting}
        dealt = sorted(seat.dealt for seat in seats if seat.dealt is not None)
        assert [b for part in dealt for b in range(part.low, part.high)] == (list(range(buckets)) if sitting else [])
        sizes = [len(part) for part in dealt]
        assert not sizes or max(sizes) - min(sizes) <= 1
        assert all(seats[k].dealt is None for k in range(7) if k not in sitting)


def test_consumers_share_as_they_subscribe(pages: journal.Journal) -> None:
    """The consumers that are dealt buckets, and no others."""
    with (
        brief(pages, name="a", buckets="dealt") as a,
        brief(pages, name="b", buckets="dealt") as b,
        brief(pages, name="all") as everything,
        brief(pages, name="fixed", buckets=Range(0, 3)) as fixed,
    ):
        assert a.buckets is None
        for consumer in (a, b, everything, fixed):
            consumer.subscribe()
        assert sorted([str(a.buckets), str(b.buckets)]) == ["0-511", "512-1023"]
        assert everything.buckets is None and fixed.buckets == Range(0, 3)
        a.unsubscribe()
        assert a.buckets is None and str(b.buckets) == "0-1023"


def test_a_forgotten_consumer_leaves_its_share(pages: journal.Journal) -> None:
    """To consumers that look for work next."""
    gone = Consumer(pages, name="gone", buckets="dealt")
    gone.subscribe()
    with brief(pages, name="b", buckets="dealt") as b:
        b.subscribe()
        assert len(b.buckets or ()) == 512
        del gone
        gc.collect()
        assignment_of(pages._ground()).sweep()
        assert len(b.buckets or ()) == 1024


def test_each_claims_from_its_own(pages: journal.Journal) -> None:
    """All together get everything, none gets another's."""
    pages.put_many([Put(f"k{n}") for n in range(300)])
    with (
        brief(pages, name="a", buckets="dealt", prefetch=300) as a,
        brief(pages, name="b", buckets="dealt", prefetch=300) as b,
    ):
        a.subscribe()
        b.subscribe()
        total = 0
        for consumer in (a, b):
            while (lease := consumer.take_nowait()) is not None:
                assert bucket_of(murmur(key_bytes(lease.key)), 1024) in (consumer.buckets or ())
                lease.done()
                total += 1
        assert total == 300
    assert pages.count() == 0


def test_lost_buckets_are_finished_and_claimed_from_no_more(pages: journal.Journal) -> None:
    """A lease is a contract; what comes after it is another's."""
    pages.put_many([Put(f"k{n}") for n in range(50)])
    with brief(pages, name="a", buckets="dealt") as a, brief(pages, name="b", buckets="dealt") as b:
        a.subscribe()
        lease = taken(a)
        b.subscribe()
        lease.done()
        while (following := a.take_nowait()) is not None:
            assert bucket_of(murmur(key_bytes(following.key)), 1024) in (a.buckets or ())
            following.done()
        assert pages.count() > 0


def test_a_lease_of_a_lost_bucket_stays(pages: journal.Journal) -> None:
    """It is extended and finished as if nothing had happened."""
    pages.put_many([Put(f"k{n}") for n in range(50)])
    with (
        brief(pages, name="a", buckets="dealt", prefetch=50) as a,
        brief(pages, name="b", buckets="dealt", prefetch=50) as b,
    ):
        a.subscribe()
        leases = [taken(a) for _ in range(50)]
        b.subscribe()
        assert b.take_nowait() is None
        for lease in leases:
            lease.extend()
            lease.done()
    assert pages.count() == 0


def test_the_share_of_a_silent_one_goes_to_the_others(pages: journal.Journal, clock: ManualClock) -> None:
    """And comes back when it answers."""
    pages.put_many([Put(f"k{n}") for n in range(50)])
    with (
        brief(pages, name="a", buckets="dealt", lease="10s", extend=False, silent_max=1) as a,
        brief(pages, name="b", buckets="dealt") as b,
    ):
        a.subscribe()
        b.subscribe()
        lease = taken(a)
        pass_time(clock, 10_000)
        assert a.statistics()["is_silent"] and a.buckets is None
        assert len(b.buckets or ()) == 1024
        with pytest.raises(journal.LeaseLost):
            lease.done()
        assert len(a.buckets or ()) == len(b.buckets or ()) == 512
