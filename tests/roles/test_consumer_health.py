"""A consumer that stops answering gets nothing more, until it answers again."""

from __future__ import annotations

import threading

import journal
from journal import Consumer, Put
from journal.testing import ManualClock
from tests.engine.helpers import HANG_S, must_end
from tests.roles.consuming import Said, brief, pass_time, taken


def lose(consumer: journal.Consumer, clock: ManualClock) -> journal.Lease:
    """Take a lease and let it run out."""
    lease = taken(consumer)
    pass_time(clock, 10_000)
    return lease


def test_nothing_more_after_three_that_were_left_unanswered(pages: journal.Journal, clock: ManualClock) -> None:
    """The work is there for others."""
    pages.put_many([Put(n) for n in "abcd"])
    with brief(pages, name="c", lease="10s", extend=False) as consumer:
        consumer.subscribe()
        for _ in range(3):
            assert not consumer.statistics()["is_silent"]
            lose(consumer, clock)
        assert consumer.statistics()["is_silent"]
        assert consumer.take_nowait() is None
        assert len(pages.claim_many(10, consumer="other")) == 4


def test_an_answer_in_between_forgets_the_rest(pages: journal.Journal, clock: ManualClock) -> None:
    """It must be so many on end."""
    pages.put_many([Put(n) for n in "abcd"])
    with brief(pages, name="c", lease="10s", extend=False) as consumer:
        consumer.subscribe()
        for _ in range(3):
            lose(consumer, clock)
            lose(consumer, clock)
            taken(consumer).done()
        assert consumer.statistics()["missed"] == 0


def test_more_time_is_an_answer(pages: journal.Journal, clock: ManualClock) -> None:
    """Of one's own accord; what is extended automatically says nothing."""
    pages.put("a")
    with brief(pages, name="c", lease="10s", extend=False, silent_max=2) as consumer:
        consumer.subscribe()
        lose(consumer, clock)
        lease = taken(consumer)
        lease.extend()
        assert consumer.statistics()["missed"] == 0
        pass_time(clock, 10_000)
        assert consumer.statistics()["missed"] == 1


def test_a_late_answer_makes_it_healthy_on_probation(pages: journal.Journal, clock: ManualClock) -> None:
    """The consumer is there; but the next loss is enough."""
    pages.put_many([Put(n) for n in "ab"])
    with brief(pages, name="c", lease="10s", extend=False) as consumer:
        consumer.subscribe()
        leases = [lose(consumer, clock) for _ in range(3)]
        try:
            leases[-1].done()
            raise AssertionError
        except journal.LeaseLost:
            assert not consumer.statistics()["is_silent"]
        lose(consumer, clock)
        assert consumer.statistics()["is_silent"]


def test_subscribing_again(pages: journal.Journal, clock: ManualClock) -> None:
    """A waiting thread goes on, with nothing held against it."""
    pages.put("a")
    with brief(pages, name="c", lease="10s", extend=False, silent_max=1) as consumer:
        said = Said()
        thread = threading.Thread(target=lambda: [said(lease.timeouts) for lease in consumer] and None, daemon=True)
        thread.start()
        said.until([0])
        pass_time(clock, 10_000)
        assert consumer.statistics()["is_silent"]
        assert said.things == [0]
        consumer.subscribe()
        said.until([0, 1])
        consumer.unsubscribe()
        must_end(thread.join)


def test_a_handler_that_hangs(pages: journal.Journal, clock: ManualClock) -> None:
    """It holds nothing any more, and does not ask: with time it is silent all the same."""
    pages.put("a")
    begun, may_end = threading.Event(), threading.Event()

    def handler(lease: journal.Lease) -> None:
        begun.set()
        assert may_end.wait(HANG_S)

    with Consumer(pages, name="c", lease="10s", extend=False) as consumer:
        consumer.subscribe(handler)
        assert begun.wait(HANG_S)
        for missed in (1, 2, 3):
            pass_time(clock, 10_000)
            assert consumer.statistics()["missed"] == missed
        assert consumer.statistics()["is_silent"]
        consumer.unsubscribe()
        may_end.set()
    assert pages.count(status="W") == 1


def test_what_nobody_was_handed_counts_for_nothing(pages: journal.Journal, clock: ManualClock) -> None:
    """A lease that ran out while it was kept ahead says nothing about the holder of another."""
    pages.put_many([Put(n) for n in "abcd"])
    with brief(pages, name="c", lease="10s", extend=False, prefetch=4) as consumer:
        consumer.subscribe()
        lease = taken(consumer)
        lease.extend("1m")
        pass_time(clock, 10_000)
        assert (consumer.statistics()["lost"], consumer.statistics()["missed"]) == (3, 0)
