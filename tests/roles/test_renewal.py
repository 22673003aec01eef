"""Leases that are looked after: extended while a handler is busy, up to a limit; warned of; lost, and told at once."""

from __future__ import annotations

import errno
import gc
import threading
from typing import Any

import pytest

import journal
from journal import Consumer, Put
from journal.core.consumer.lease_renewal import Step
from journal.roles import renewal
from journal.roles.renewal_thread import renewal_thread
from journal.testing import ManualClock
from tests.engine.helpers import HANG_S, Failing
from tests.roles.consuming import Said, brief, pass_time, taken


def test_extended_while_the_handler_is_busy(pages: journal.Journal, clock: ManualClock) -> None:
    """By a thread that no handler can block, when half of the lease is over, again and again."""
    pages.put("a")
    begun, may_end = threading.Event(), threading.Event()

    def handler(lease: journal.Lease) -> None:
        begun.set()
        assert may_end.wait(HANG_S)

    with Consumer(pages, name="c", lease="30s") as consumer:
        consumer.subscribe(handler)
        assert begun.wait(HANG_S)
        for _ in range(10):
            pass_time(clock, 14_999)
            (lease,) = pages.leases()
            assert lease.deadline == clock.now() + 15_001
            pass_time(clock, 1)
            (lease,) = pages.leases()
            assert lease.deadline == clock.now() + 30_000
        assert consumer.statistics()["extended"] == 10
        may_end.set()
    assert pages.count() == 0


def test_the_lease_that_was_handed_out_knows_its_deadline(pages: journal.Journal, clock: ManualClock) -> None:
    """And its version, which an extension raises."""
    pages.put("a")
    with brief(pages, name="c", lease="30s") as consumer:
        consumer.subscribe()
        lease = taken(consumer)
        version = lease.version
        pass_time(clock, 15_000)
        assert (lease.deadline, lease.version) == (clock.now() + 30_000, version + 1)


def test_what_is_claimed_ahead_is_extended_too(pages: journal.Journal, clock: ManualClock) -> None:
    """It waits its turn in the consumer, and is not lost meanwhile."""
    pages.put_many([Put("a"), Put("b")])
    with brief(pages, name="c", lease="30s", prefetch=2) as consumer:
        consumer.subscribe()
        taken(consumer)
        pass_time(clock, 15_000)
        assert [lease.deadline for lease in pages.leases()] == [clock.now() + 30_000] * 2


def test_the_hard_limit(pages: journal.Journal, clock: ManualClock) -> None:
    """From the beginning of the lease; then it is warned, ends, and goes to the next one."""
    pages.put("a")
    warned, lost = Said(), Said()
    with brief(
        pages, name="c", lease="30s", extend_max="1m", warn="5s",
        on_warning=lambda lease, left: warned((lease.key, left)), on_lost=lambda lease: lost(lease.key),
    ) as consumer:  # fmt: skip
        start = clock.now()
        consumer.subscribe()
        lease = taken(consumer)
        for _ in range(11):
            pass_time(clock, 5000)
        assert pages.leases()[0].deadline == start + 60_000
        warned.until([("a", 5000)])
        pass_time(clock, 4999)
        assert lost.things == []
        consumer.unsubscribe()
        pass_time(clock, 1)
        lost.until(["a"])
        other = pages.claim(consumer="other")
        assert other is not None and other.key == "a"
        for late in (lease.done, lease.extend, lease.release, lambda: lease.bury("")):
            with pytest.raises(journal.LeaseLost):
                late()
        assert [(x.token, x.version) for x in pages.leases()] == [(other.token, other.version)]
        assert not consumer.holds(lease)


def test_without_extension(pages: journal.Journal, clock: ManualClock) -> None:
    """Warned once for each deadline, and lost at it; an extension of one's own counts."""
    pages.put("a")
    warned, lost = Said(), Said()
    with brief(
        pages, name="c", lease="30s", extend=False, on_warning=lambda lease, left: warned(left),
        on_lost=lambda lease: lost(lease.key),
    ) as consumer:  # fmt: skip
        consumer.subscribe()
        lease = taken(consumer)
        pass_time(clock, 24_999)
        assert warned.things == []
        pass_time(clock, 1)
        warned.until([5000])
        pass_time(clock, 3000)
        assert lease.extend() == clock.now() + 30_000  # as long as the consumer's leases are
        pass_time(clock, 29_999)
        warned.until([5000, 1])
        assert lost.things == []
        pass_time(clock, 1)
        lost.until(["a"])
        assert consumer.statistics()["lost"] == 1


def test_an_answered_lease_is_left_alone(pages: journal.Journal, clock: ManualClock) -> None:
    """No warning, no loss, no extension of what is finished."""
    pages.put("a")
    said = Said()
    with brief(pages, name="c", lease="30s", extend=False, on_warning=lambda *_: said(1), on_lost=said) as consumer:
        consumer.subscribe()
        taken(consumer).done()
        pass_time(clock, 60_000)
        assert said.things == []
        assert consumer.statistics()["lost"] == 0


def test_lost_in_one_go(pages: journal.Journal, clock: ManualClock) -> None:
    """A process that stood still for longer than a lease does not extend what is over."""
    pages.put("a")
    lost = Said()
    with brief(pages, name="c", lease="30s", on_lost=lost) as consumer:
        consumer.subscribe()
        lease = taken(consumer)
        consumer.unsubscribe()
        pass_time(clock, 30_000)
        lost.until([lease])
        assert pages.count(status="W") == 1


def test_extended_past_the_consumer(pages: journal.Journal, clock: ManualClock) -> None:
    """By its token: the engine's deadline counts, and no loss is told that is none."""
    pages.put("a")
    lost = Said()
    with brief(pages, name="c", lease="10s", extend=False, on_lost=lost) as consumer:
        consumer.subscribe()
        lease = taken(consumer)
        pages.extend(lease.token, "1m")
        pass_time(clock, 10_000)
        assert (lost.things, lease.deadline) == ([], clock.now() + 50_000)
        pass_time(clock, 50_000)
        lost.until([lease])


def test_a_callback_that_blocks_or_raises(pages: journal.Journal, clock: ManualClock) -> None:
    """Holds up no extension, and no later callback but its own."""
    pages.put_many([Put("a"), Put("b")])
    entered, may_end = threading.Event(), threading.Event()
    told = Said()

    def on_lost(lease: journal.Lease) -> None:
        entered.set()
        assert may_end.wait(HANG_S)
        told(lease.key)
        raise KeyError

    with (
        brief(pages, name="blocked", lease="10s", extend=False, prefetch=2, on_lost=on_lost) as blocked,
        brief(pages, name="other", lease="1m") as other,
    ):
        blocked.subscribe()
        keys = [taken(blocked).key, taken(blocked).key]
        blocked.unsubscribe()
        pages.put("c")
        other.subscribe()
        lease = taken(other)
        pass_time(clock, 10_000)
        assert entered.wait(HANG_S)
        pass_time(clock, 20_000)
        assert lease.deadline == clock.now() + 60_000
        may_end.set()
        told.until(keys)


def test_a_full_disk(pages: journal.Journal, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """An extension that cannot be written is tried again; its holder is warned when it gets close."""
    pages.put("a")
    warned = Said()
    with brief(pages, name="c", lease="16s", warn="4s", on_warning=lambda lease, left: warned(left)) as consumer:
        consumer.subscribe()
        lease = taken(consumer)
        deadline = lease.deadline
        real = journal.Journal.extended

        def full(self: Any, token: Any, lease: Any) -> Any:
            raise journal.StoreFull("no room")

        monkeypatch.setattr(journal.Journal, "extended", full)
        pass_time(clock, 8000)
        for _ in range(4):
            pass_time(clock, 1000)
        warned.until([4000])
        monkeypatch.setattr(journal.Journal, "extended", real)
        assert lease.deadline == deadline
        pass_time(clock, 1000)
        assert lease.deadline == clock.now() + 16_000
        assert consumer.holds(lease)


def test_lost_although_nothing_can_be_written(
    tmp_path: Any, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease that is over is over before its timer has written that down."""
    lost = Said()
    with journal.open(tmp_path / "s", clock=clock) as store:
        pages = store.journal("pages")
        pages.put("a")
        with brief(pages, name="c", lease="10s", extend=False, on_lost=lost) as consumer:
            consumer.subscribe()
            lease = taken(consumer)
            consumer.unsubscribe()
            pwrite = Failing(monkeypatch, "pwrite", errno.ENOSPC)
            pass_time(clock, 10_000)
            lost.until([lease])
            with pytest.raises(journal.LeaseLost):
                lease.done()
            pwrite.error = None
        assert store.check() == []


def test_a_forgotten_consumer_keeps_no_lease_alive(pages: journal.Journal, clock: ManualClock) -> None:
    """It could not be answered any more."""
    pages.put("a")
    consumer = Consumer(pages, name="c", lease="30s")
    consumer.subscribe()
    deadline = taken(consumer).deadline
    del consumer
    gc.collect()
    pass_time(clock, 15_000)
    assert [lease.deadline for lease in pages.leases()] == [deadline]
    renewal_thread().forget()


def test_two_stores_with_clocks_of_their_own(tmp_path: Any) -> None:
    """One watch, and each consumer by its own time."""
    clocks = [ManualClock(1_700_000_000_000), ManualClock(1_800_000_000_000)]
    stores = [journal.open(tmp_path / f"{n}", clock=clock) for n, clock in enumerate(clocks)]
    leases, consumers = [], []
    for store in stores:
        pages = store.journal("pages")
        pages.put("a")
        consumer = Consumer(pages, name="c", lease="30s")
        consumer.subscribe()
        leases.append(taken(consumer))
        consumers.append(consumer)
    pass_time(clocks[1], 15_000)
    assert [lease.deadline - clock.now() for lease, clock in zip(leases, clocks, strict=True)] == [30_000, 30_000]
    for store, consumer in zip(stores, consumers, strict=True):
        store.close()
        consumer.close()


def test_an_extension_that_comes_too_late_is_a_loss(pages: journal.Journal, clock: ManualClock) -> None:
    """The lease ended between the plan and its turn: nothing is raised, and it is looked at as one that is over."""
    pages.put("a")
    with brief(pages, name="c", lease="30s", extend_max="30s") as consumer:
        consumer.subscribe()
        lease = taken(consumer)
        (held,) = consumer._leases.held.values()
        clock.advance(30_000)
        renewal._extend(consumer._leases, held, consumer.time.running())
        assert held.step is Step.END and pages.count(status="waiting") == 1
        with pytest.raises(journal.LeaseLost):
            lease.done()
