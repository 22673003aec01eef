"""Handlers: what returns is done, what raises is tried again later and given up in the end."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import journal
from journal import Consumer, Put, Retry
from journal.errors import Invalid
from journal.roles.failures import LOG_EVERY_MS, LOG_MAX
from journal.roles.handler import reason_of
from journal.testing import ManualClock
from tests.engine.helpers import must_end
from tests.roles.consuming import Said, pass_time, sleeps

EXACT = Retry(first="1s", cap="10s", jitter=0, failures_max=4)


def test_run_in_ones_own_thread(pages: journal.Journal) -> None:
    """Until the subscription ends."""
    pages.put_many([Put("a"), Put("b")])
    consumer = Consumer(pages, name="c")
    seen: list[tuple[Any, threading.Thread]] = []

    def handler(lease: journal.Lease) -> None:
        seen.append((lease.key, threading.current_thread()))
        if len(seen) == 2:
            consumer.unsubscribe()

    def main() -> threading.Thread:
        consumer.run(handler)
        return threading.current_thread()

    me = must_end(main)
    assert sorted(seen) == [("a", me), ("b", me)]
    assert pages.count() == 0
    consumer.close()


def test_a_handler_has_the_last_word(pages: journal.Journal) -> None:
    """What it answered itself is not answered again, also when it raises afterwards."""
    pages.put_many([Put("done"), Put("released"), Put("buried"), Put("raised")])
    said = Said()

    def handler(lease: journal.Lease) -> None:
        match lease.key:
            case "released":
                lease.release(delay="1h")
            case "buried":
                lease.bury("unreadable")
            case "raised":
                lease.release(delay="2h")
                raise KeyError
            case _:
                lease.done()
        said(lease.key)
        assert lease.key != "raised"

    with Consumer(pages, name="c", retry=EXACT) as consumer:
        consumer.subscribe(handler)
        said.until(lambda things: len(things) == 3)
        sleeps(consumer)
    assert [(b.entry.key, b.reason) for b in pages.buried()] == [("buried", "unreadable")]
    assert [(e.key, e.timeouts) for e in pages.scan()] == [("released", 0), ("raised", 0)]


def test_a_handler_returns_what_comes_next(pages: journal.Journal, clock: ManualClock) -> None:
    """It is put with the done; what cannot be put is a failure."""
    pages.put_many([Put("again", 0), Put("wrong", 0)])
    said = Said()

    def handler(lease: journal.Lease) -> object:
        said(lease.key)
        if lease.key == "wrong":
            return Put("", 1)
        return Put("again", lease.data + 1, delay="1h")

    with Consumer(pages, name="c", retry=EXACT) as consumer:
        consumer.subscribe(handler)
        said.until(lambda things: len(things) == 2)
        sleeps(consumer)
        found = {e.key: (e.data, e.timeouts, e.process_date - clock.now()) for e in pages.scan()}
        assert found == {"again": (1, 0, 3_600_000), "wrong": (0, 1, 1000)}
        assert consumer.statistics()["failed"] == 1
        clock.advance(3_600_000)
        said.until(lambda things: len(things) == 4)
        sleeps(consumer)
    assert {e.key: e.data for e in pages.scan() if e.key == "again"} == {"again": 2}


def test_failures_wait_longer_and_longer_and_end(pages: journal.Journal, clock: ManualClock) -> None:
    """1 s, 2 s, 4 s, and then it is buried with the reason."""
    pages.put("a")
    said = Said()

    def handler(lease: journal.Lease) -> None:
        said(lease.timeouts)
        raise ConnectionError("refused")

    with Consumer(pages, name="c", retry=EXACT) as consumer:
        consumer.subscribe(handler)
        for failures, wait in enumerate((1000, 2000, 4000)):
            said.until([*range(failures + 1)])
            sleeps(consumer)
            assert next(pages.scan()).process_date == clock.now() + wait
            clock.advance(wait)
        said.until([0, 1, 2, 3])
        sleeps(consumer)
        assert consumer.statistics()["failed"] == 4
    (buried,) = pages.buried()
    assert buried.reason == "failed 4 times, at last with ConnectionError: refused"
    assert pages.count() == 0


def test_a_key_that_is_put_in_each_round_is_given_up_too(pages: journal.Journal, clock: ManualClock) -> None:
    """What is put behind an attempt does not forget its failures; it takes the place of what is buried."""
    pages.put("a", 0)
    said = Said()

    def handler(lease: journal.Lease) -> None:
        pages.put("a", lease.data + 1)
        said((lease.data, lease.timeouts))
        raise ConnectionError

    with Consumer(pages, name="c", retry=EXACT) as consumer:
        consumer.subscribe(handler)
        for round_ in range(4):
            said.until(lambda things, n=round_ + 1: len(things) == n)  # type: ignore[misc]
            sleeps(consumer)
            assert round_ < 3 or len(pages.buried()) == 1
            clock.advance(10_000)
        said.until([(0, 0), (1, 1), (2, 2), (3, 3), (4, 0)])
        sleeps(consumer)
    assert [(b.entry.data, b.entry.timeouts) for b in pages.buried()] == [(3, 3)]


def test_failures_are_counted_with_the_entry(pages: journal.Journal, clock: ManualClock) -> None:
    """Over consumers and restarts, and lost leases count: what kills its workers is no better than what raises."""
    pages.put("a")
    lease = pages.claim(consumer="died", lease="10s")
    assert lease is not None
    clock.advance(10_000)
    for name in ("one", "two"):
        said = Said()

        def handler(lease: journal.Lease, said: Said = said) -> None:
            said(lease.timeouts)
            raise ValueError

        with Consumer(pages, name=name, retry=EXACT) as consumer:
            consumer.subscribe(handler)
            said.until(lambda things: len(things) == 1)
            sleeps(consumer)
        clock.advance(10_000)
    assert [entry.timeouts for entry in pages.scan()] == [3]


def test_new_data_begins_anew(pages: journal.Journal) -> None:
    """A put of the same key forgets the failures: it may be what mends it."""
    pages.put("a", 1)
    lease = pages.claim()
    assert lease is not None
    lease.release(failed=True)
    assert [entry.timeouts for entry in pages.scan()] == [1]
    pages.put("a", 2)
    assert [entry.timeouts for entry in pages.scan()] == [0]


def test_failures_stop_at_the_counters_end(pages: journal.Journal) -> None:
    """The counter is one byte, and saturates."""
    pages.put("a")
    for _ in range(260):
        lease = pages.claim()
        assert lease is not None
        lease.release(failed=True, durability="none")
    assert [entry.timeouts for entry in pages.scan()] == [255]


def test_without_a_policy(pages: journal.Journal) -> None:
    """It is tried again at once, and counted."""
    pages.put("a")
    said = Said()

    def handler(lease: journal.Lease) -> None:
        said(lease.timeouts)
        if lease.timeouts < 3:
            raise ValueError

    with Consumer(pages, name="c", retry=None) as consumer:
        consumer.subscribe(handler)
        said.until([0, 1, 2, 3])
    assert pages.count() == 0


def test_an_interrupt_is_no_failure(pages: journal.Journal) -> None:
    """The entry goes back to its place, and the interrupt on its way."""
    pages.put("a")
    before = next(pages.scan())
    consumer = Consumer(pages, name="c")

    def handler(lease: journal.Lease) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        consumer.run(handler)
    entry = next(pages.scan(status="W"))
    assert (entry.timeouts, entry.process_date) == (0, before.process_date)
    consumer.close()


def test_a_handler_that_comes_too_late(pages: journal.Journal, clock: ManualClock) -> None:
    """Its work is not counted as done, and the consumer goes on."""
    pages.put("a")
    said, lost = Said(), Said()

    def handler(lease: journal.Lease) -> None:
        if not said.things:
            clock.advance(30_000)
        said((lease.key, lease.timeouts))

    with Consumer(pages, name="c", extend=False, on_lost=lambda lease: lost(lease.key)) as consumer:
        consumer.subscribe(handler)
        said.until([("a", 0), ("a", 1)])
        lost.until(["a"])
        sleeps(consumer)
        assert consumer.statistics()["done"] == 1
    assert pages.count() == 0


def test_answers_may_come_later(pages: journal.Journal, clock: ManualClock) -> None:
    """Without auto_done a handler only takes notice; others answer, and prefetch bounds how many are open."""
    pages.put_many([Put(n) for n in "abc"])
    said = Said()
    with Consumer(pages, name="c", prefetch=2, auto_done=False) as consumer:
        consumer.subscribe(said)
        said.until(lambda things: len(things) == 2)
        assert pages.count(status="W") == 1
        said.things[0].done()
        said.until(lambda things: len(things) == 3)
        pass_time(clock, 0)
        for lease in said.things[1:]:
            lease.done()
    assert pages.count() == 0


def test_a_reason_has_its_bounds() -> None:
    """As much of the error as there is room for, whatever it says."""
    assert reason_of(KeyError("x"), 2) == "failed 2 times, at last with KeyError: 'x'"
    assert len(reason_of(ValueError("é" * 5000), 1).encode()) <= 4096
    assert "\\udcff" in reason_of(ValueError("\udcff"), 1)


def fail_all(
    pages: journal.Journal, clock: ManualClock, count: int, name: str = "c", retry: Retry | None = None
) -> None:
    """Let a handler fail so many times."""
    seen: list[object] = []
    with Consumer(pages, name=name, retry=retry) as consumer:

        def handler(lease: journal.Lease) -> None:
            seen.append(lease.key)
            if len(seen) == count:
                consumer.unsubscribe()
            raise ValueError(f"no {lease.key}")

        must_end(lambda: consumer.run(handler))


def test_each_failure_is_logged(pages: journal.Journal, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    """With key, attempt and traceback, also the second and third of a consumer."""
    for n in range(3):
        pages.put(f"a{n}")
    fail_all(pages, clock, 3, retry=Retry(first="1m", jitter=0))
    lines = [record for record in caplog.records if record.getMessage().startswith("handler_failed")]
    assert {record.args[2] for record in lines} == {"a0", "a1", "a2"}  # type: ignore[index]
    assert all("attempt=1 left_out=0" in record.getMessage() for record in lines)
    assert all(record.exc_info and "no a" in str(record.exc_info[1]) for record in lines)


def test_many_failures_are_counted(
    pages: journal.Journal, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """So many lines in a minute for all consumers of a journal; the next one says how many were left out."""
    pages.put("a")
    fail_all(pages, clock, LOG_MAX)
    fail_all(pages, clock, 5, name="other")
    assert sum("handler_failed" in record.getMessage() for record in caplog.records) == LOG_MAX
    clock.advance(LOG_EVERY_MS)
    fail_all(pages, clock, 1)
    assert f"attempt={LOG_MAX + 6} left_out=5" in caplog.records[-1].getMessage()


def test_a_burial_for_failures_raises_a_flag(store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """As one for time-outs does: a person must look at it."""
    pages.put("a")
    fail_all(pages, clock, 1, retry=Retry(failures_max=1))
    (flag,) = store.flags()
    assert (flag.journal, flag.name, flag.count) == (pages.name, "failures", 1)
    assert "'a' was buried: failed 1 times, at last with ValueError: no a" in flag.message
    assert [each.entry.key for each in pages.buried()] == ["a"]


@pytest.mark.parametrize("handler", ["text", 7, ["a"]])
def test_what_cannot_be_called_is_no_handler(pages: journal.Journal, handler: Any) -> None:
    """It is refused at once, and nothing is subscribed or claimed."""
    pages.put("a")
    with Consumer(pages, name="c") as consumer:
        with pytest.raises(Invalid):
            consumer.subscribe(handler)
        with pytest.raises(Invalid):
            consumer.run(handler)
        assert not consumer.is_subscribed
    assert pages.count(status="P") == 0
