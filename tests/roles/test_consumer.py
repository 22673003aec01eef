"""A consumer: subscribed, handed leases in order, never more than it may hold; its own again after a restart; an end."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import journal
from journal import Consumer, Put, Range
from journal.roles.renewal_thread import renewal_thread
from journal.testing import ManualClock
from tests.engine.helpers import must_end
from tests.roles.consuming import Said, brief, pass_time, sleeps, taken

# -- getting work ------------------------------------------------------------------------------------------------------


def test_leases_come_as_they_fall_due(pages: journal.Journal, clock: ManualClock) -> None:
    """What is due comes at once, what is for later at its millisecond, to a thread that sleeps meanwhile."""
    said = Said()
    pages.put("later", delay=1000)
    with Consumer(pages, name="c") as consumer:
        consumer.subscribe(lambda lease: said(lease.key))
        sleeps(consumer)
        pages.put("now")
        said.until(["now"])
        sleeps(consumer)
        clock.advance(999)
        sleeps(consumer)
        clock.advance(1)
        said.until(["now", "later"])
    assert pages.count() == 0


def test_an_iterator(pages: journal.Journal) -> None:
    """Subscribes by itself, and ends with the subscription."""
    pages.put_many([Put("a", 1), Put("b", 2, priority=1)])
    with brief(pages, name="c") as consumer:
        seen = []
        for lease in consumer:
            seen.append((lease.key, lease.data, lease.consumer))
            lease.done()
            if len(seen) == 2:
                consumer.unsubscribe()
        assert seen == [("b", 2, "c"), ("a", 1, "c")]
        assert consumer.take() is None
    assert pages.count() == 0


def test_the_order_of_work(pages: journal.Journal, clock: ManualClock) -> None:
    """Priority, then date; what was claimed ahead does not come before what is more urgent, once there is room."""
    pages.put_many([Put(n, n, priority=100) for n in "abcd"])
    with brief(pages, name="c", prefetch=2) as consumer:
        consumer.subscribe()
        first = taken(consumer)
        pages.put("urgent", priority=0)
        first.done()
        assert taken(consumer).key == "urgent"


def test_no_more_than_prefetch_are_held(pages: journal.Journal) -> None:
    """Others are left to others until one is answered, in whatever way."""
    pages.put_many([Put(n) for n in "abcdef"])
    with brief(pages, name="c", prefetch=3) as consumer:
        consumer.subscribe()
        one, two, three = (taken(consumer) for _ in range(3))
        assert consumer.take_nowait() is None
        assert pages.count(status="P") == 3
        assert consumer.held == [one, two, three]
        for answer in (one.done, two.release, lambda: three.bury("no")):
            answer()
            assert taken(consumer).key not in {one.key, three.key}
            assert pages.count(status="P") == 3
        assert consumer.statistics()["held"] == 3


def test_what_is_claimed_ahead_is_claimed_in_one_go(pages: journal.Journal) -> None:
    """One record for many, and another one when half of them are answered."""
    pages.put_many([Put(f"{n}") for n in range(12)])
    with brief(pages, name="c", prefetch=8) as consumer:
        consumer.subscribe()
        first = taken(consumer)
        assert consumer.statistics()["ahead"] == 7
        first.done()
        for _ in range(3):
            taken(consumer).done()
        assert pages.count() == 8
        assert pages.count(status="W") == 4
        taken(consumer)
        assert pages.count(status="W") == 0


def test_slow_work_comes_when_nothing_else_is_due(pages: journal.Journal) -> None:
    """And does not stand in the way of what comes later."""
    pages.put("slow-1", priority=journal.SLOW)
    pages.put("slow-2", priority=journal.SLOW)
    with brief(pages, name="c", prefetch=10) as consumer:
        consumer.subscribe()
        assert taken(consumer).key in ("slow-1", "slow-2")
        pages.put("quick")
        assert taken(consumer).key == "quick"


def test_a_thread_that_waits_for_room(pages: journal.Journal) -> None:
    """Goes on when another one answers."""
    pages.put_many([Put("a"), Put("b")])
    with brief(pages, name="c") as consumer:
        consumer.subscribe()
        lease = taken(consumer)
        said = Said()
        thread = threading.Thread(target=lambda: said(consumer.take()), daemon=True)
        thread.start()
        lease.done()
        said.until(lambda things: len(things) == 1)
        assert said.things[0].key == "b"


def test_many_threads_of_one_consumer(pages: journal.Journal) -> None:
    """Each entry goes to one of them."""
    pages.put_many([Put(f"{n}") for n in range(200)])
    consumer = Consumer(pages, name="c", prefetch=4)
    consumer.subscribe()
    said = Said()

    def work() -> None:
        for lease in consumer:
            lease.done()
            said(lease.key)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    said.until(lambda things: len(things) == 200)
    consumer.close()
    for thread in threads:
        must_end(thread.join)
    assert sorted(said.things) == sorted(f"{n}" for n in range(200))


def test_answers_by_token_and_in_bulk(pages: journal.Journal, clock: ManualClock) -> None:
    """done_many counts as answers; what went past the consumer is noticed at the deadline, and is no loss."""
    lost: list[journal.Lease] = []
    pages.put_many([Put(n) for n in "abcd"])
    with brief(pages, name="c", prefetch=3, lease="10s", extend=False, on_lost=lost.append) as consumer:
        consumer.subscribe()
        leases = [taken(consumer) for _ in range(3)]
        assert consumer.done_many(leases[:2]) == [None, None]
        pages.done(leases[2].token)
        assert consumer.holds(leases[2])
        last = taken(consumer)
        pass_time(clock, 10_000)
        assert not consumer.holds(leases[2])
        assert consumer.statistics()["lost"] == 1
        late = consumer.done_many([last])
        assert isinstance(late[0], journal.LeaseLost)
    assert lost == [last]


# -- subscribing -------------------------------------------------------------------------------------------------------


def test_nothing_comes_without_a_subscription(pages: journal.Journal) -> None:
    """Neither before nor after."""
    pages.put("a")
    with brief(pages, name="c") as consumer:
        assert consumer.take_nowait() is None
        consumer.subscribe()
        taken(consumer).release()
        consumer.unsubscribe()
        assert consumer.take_nowait() is None
        assert pages.count(status="W") == 1


def test_subscribing_twice_and_unsubscribing_twice(pages: journal.Journal) -> None:
    """Are mistakes, and change nothing."""
    with brief(pages, name="c") as consumer:
        with pytest.raises(journal.Refused, match="not subscribed"):
            consumer.unsubscribe()
        consumer.subscribe()
        with pytest.raises(journal.Refused, match="subscribed already"):
            consumer.subscribe()
        assert consumer.is_subscribed
        consumer.unsubscribe()
        consumer.subscribe()
        assert consumer.is_subscribed


def test_unsubscribing_gives_back_what_was_not_handed_out(pages: journal.Journal) -> None:
    """To its place, with nothing counted; what was handed out can still be finished."""
    pages.put_many([Put(n) for n in "abc"])
    before = {entry.key: entry.process_date for entry in pages.scan()}
    with brief(pages, name="c", prefetch=3) as consumer:
        consumer.subscribe()
        lease = taken(consumer)
        consumer.unsubscribe()
        waiting = list(pages.scan(status="W"))
        assert {entry.key: entry.process_date for entry in waiting} == {
            key: date for key, date in before.items() if key != lease.key
        }
        assert [entry.timeouts for entry in waiting] == [0, 0]
        lease.done()
    assert pages.count() == 2


def test_unsubscribing_ends_who_waits(pages: journal.Journal) -> None:
    """Whether it sleeps for work or for room."""
    pages.put("a")
    with brief(pages, name="c") as consumer:
        ended = Said()
        thread = threading.Thread(target=lambda: [ended(lease.key) for lease in consumer] and None, daemon=True)
        thread.start()
        ended.until(["a"])
        consumer.unsubscribe()
        must_end(thread.join)
        consumer.held[0].done()
        consumer.subscribe(lambda lease: None)
        sleeps(consumer)
        consumer.unsubscribe()
        assert consumer._thread is not None
        must_end(consumer._thread.join)


# -- names and restarts ------------------------------------------------------------------------------------------------


def test_one_live_consumer_under_a_name(store: journal.Store, pages: journal.Journal) -> None:
    """In a process, for a journal; another journal has its own names, and a closed consumer is no more."""
    first = Consumer(pages, name="c")
    with pytest.raises(journal.Refused, match="'c'"):
        Consumer(pages, name="c")
    Consumer(store.journal("other"), name="c").close()
    Consumer(pages, name="d").close()
    first.close()
    Consumer(pages, name="c").close()


def test_a_forgotten_consumer_frees_its_name(pages: journal.Journal) -> None:
    """Without a goodbye; its leases end by themselves."""
    pages.put("a")
    consumer = Consumer(pages, name="c")
    consumer.subscribe()
    taken(consumer)
    del consumer
    gc.collect()
    Consumer(pages, name="c").close()
    renewal_thread().forget()


def test_its_leases_come_first_after_a_restart(
    tmp_path: Path, clock: ManualClock, crashed: Callable[[journal.Store], Path]
) -> None:
    """The same leases, with their tokens, before anything else, however urgent; those of others stay with them."""
    with journal.open(tmp_path / "s", clock=clock) as store:
        pages = store.journal("pages")
        pages.put_many([Put(n, n) for n in "abcd"])
        consumer = Consumer(pages, name="c", prefetch=2)
        consumer.subscribe()
        before = [taken(consumer) for _ in range(2)]
        other = pages.claim(consumer="other")
        assert other is not None
        copy = crashed(store)
        consumer.close(finish=False)
    with journal.open(copy, clock=clock) as store:
        pages = store.journal("pages")
        pages.put("urgent", priority=0)
        with brief(pages, name="c", prefetch=2) as consumer:
            consumer.subscribe()
            back = [taken(consumer), taken(consumer)]
            assert [(x.key, x.token, x.data) for x in back] == [(x.key, x.token, x.data) for x in before]
            assert consumer.take_nowait() is None  # as many as it may hold
            back[0].done()
            assert taken(consumer).key == "urgent"
            back[1].extend("1m")


def test_a_restart_that_came_too_late(pages: journal.Journal, clock: ManualClock) -> None:
    """Leases that are over are not given back: the entry is new work, for any consumer."""
    pages.put("a")
    old = pages.claim(consumer="c", lease="10s")
    assert old is not None
    clock.advance(10_000)
    with brief(pages, name="c") as consumer:
        consumer.subscribe()
        lease = taken(consumer)
        assert (lease.key, lease.timeouts) == ("a", 1)
        assert lease.token != old.token


def test_a_lease_that_comes_back_is_looked_after(pages: journal.Journal, clock: ManualClock) -> None:
    """From where it stands: less than half is left, so it is extended at once."""
    pages.put("a")
    assert pages.claim(consumer="c", lease="10s") is not None
    clock.advance(9_000)
    with brief(pages, name="c", lease="30s") as consumer:
        consumer.subscribe()
        pass_time(clock, 0)
        (lease,) = pages.leases()
        assert lease.deadline == clock.now() + 30_000


# -- making one --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"name": ""},
        {"name": 7},
        {"name": "x" * 256},
        {"prefetch": 0},
        {"prefetch": True},
        {"silent_max": 0},
        {"lease": 0},
        {"lease": "1m", "extend_max": "30s"},
        {"buckets": "some"},
        {"buckets": Range(0, 4096)},
        {"retry": 3},
    ],
    ids=str,
)
def test_wrong_consumers(pages: journal.Journal, options: dict[str, Any]) -> None:
    """Refused when they are made, and no name is taken."""
    with pytest.raises(journal.Invalid):
        Consumer(pages, **{"name": "c", **options})
    Consumer(pages, name="c").close()


def test_it_needs_a_journal(store: journal.Store) -> None:
    """Not a store, and not a name."""
    with pytest.raises(journal.Invalid, match=r"Store\.journal"):
        Consumer(store, name="c")  # type: ignore[arg-type]


def test_a_store_that_is_only_looked_at(tmp_path: Path) -> None:
    """Gives no leases."""
    with journal.open(tmp_path / "s") as store:
        store.journal("pages").put("a")
    with journal.open(tmp_path / "s", readonly=True) as look:
        consumer = Consumer(look.journal("pages"), name="c")
        consumer.subscribe()
        with pytest.raises(journal.ReadOnly):
            consumer.take_nowait()


def test_it_says_who_it_is(pages: journal.Journal) -> None:
    """For logs."""
    with brief(pages, name="c") as consumer:
        assert repr(consumer) == "<Consumer c of pages>"


def test_what_was_lost_ahead_does_not_stand_in_the_way(pages: journal.Journal, clock: ManualClock) -> None:
    """It is claimed again, with what has come meanwhile, in the order of work."""
    pages.put_many([Put(f"{n}") for n in range(5)])
    with brief(pages, name="c", prefetch=5, lease="10s", extend=False) as consumer:
        consumer.subscribe()
        lease = taken(consumer)
        lease.extend("1h")
        pass_time(clock, 10_000)
        assert consumer.statistics()["ahead"] == 0
        pages.put("urgent", priority=0)
        assert taken(consumer).key == "urgent"
        assert consumer.statistics()["ahead"] == 3
