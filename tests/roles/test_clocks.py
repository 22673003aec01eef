"""Clocks that are reported: kept in statistics, flagged beyond the limit, and without effect on any date."""

from __future__ import annotations

import pytest

import journal
from journal import Producer
from journal.testing import ManualClock
from tests.roles.consuming import Said, brief, pass_time, taken


def test_a_clock_that_agrees(pages: journal.Journal, clock: ManualClock) -> None:
    """In one process it does: there is nothing to say."""
    with brief(pages, name="c") as consumer:
        assert consumer.statistics()["clock"] is None
        for _ in range(3):
            assert not consumer.report_clock(clock.now())
        known = consumer.statistics()["clock"]
        assert (known["offset_ms"], known["samples"], known["is_flagged"]) == (0.0, 3, False)


def test_a_clock_that_is_off(store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """More than 250 ms, and certainly so, twice on end; 250 is not more."""
    producer = Producer(pages, group="billing")
    with brief(pages, name="c") as consumer:
        now = clock.now()
        assert [consumer.report_clock(now + 250) for _ in range(3)] == [False] * 3
        assert [producer.report_clock(now - 400) for _ in range(3)] == [False, True, True]
        statistics = store.statistics()["drift"]
        assert (statistics["peers"], statistics["flagged"]) == (2, 1)
        assert statistics["worst"]["producer billing"]["offset_ms"] == -400.0
    assert store.drifts.get("consumer c") is None  # it said goodbye
    assert [(flag.name, "billing" in flag.message) for flag in store.flags()] == [("drift", True)]


def test_a_round_trip(pages: journal.Journal, clock: ManualClock) -> None:
    """With a network in between, what the way took is no drift."""
    now = clock.now()
    with brief(pages, name="c") as consumer:
        for n in range(2):
            consumer.report_clock(now + 2000 + n, now + 2001 + n, t0=now + n, t3=now + 4001 + n)
        known = consumer.statistics()["clock"]
        assert (known["offset_ms"], known["error_ms"], known["is_flagged"]) == (0.0, 2000.0, False)
        with pytest.raises(journal.Invalid):
            consumer.report_clock(now, t0=now, t3=now - 5000)


def test_no_date_follows_a_wrong_clock(pages: journal.Journal, clock: ManualClock) -> None:
    """Relative times are reckoned by the engine, whatever was reported."""
    with brief(pages, name="c", lease="30s") as consumer:
        for _ in range(3):
            consumer.report_clock(clock.now() + 3_600_000)
        assert Producer(pages, group="g").publish(1, delay="5s").process_date == clock.now() + 5000
        clock.advance(5000)
        consumer.subscribe()
        assert taken(consumer).deadline == clock.now() + 30_000


@pytest.mark.parametrize("step", [3_600_000, -3_600_000])
def test_leases_are_tended_through_a_step(pages: journal.Journal, clock: ManualClock, step: int) -> None:
    """Extended at half of their time, never lost, and no longer than extend_max; a holder that is lost is told in time."""
    lost = Said()
    pages.put("a")
    with brief(pages, name="c", lease="30s", extend_max="1m", on_lost=lambda lease: lost(lease.key)) as consumer:
        consumer.subscribe()
        lease = taken(consumer)
        pass_time(clock, 10_000)
        clock.step(step)
        pass_time(clock, 4_999)
        assert pages.lease(lease.token).deadline == clock.now() + 15_001
        pass_time(clock, 1)
        assert pages.lease(lease.token).deadline == clock.now() + 30_000
        clock.step(-2 * step)
        pass_time(clock, 15_000)
        assert pages.lease(lease.token).deadline == clock.now() + 30_000  # a minute after the claim: no more
        clock.step(step)
        pass_time(clock, 29_999)
        assert lost.things == [] and consumer.holds(lease)
        pass_time(clock, 1)
        lost.until(["a"])
        assert not consumer.holds(lease)
