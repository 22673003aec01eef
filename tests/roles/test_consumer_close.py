"""The end of a consumer: what is handed out is finished or goes back, and nothing hangs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import journal
from journal import Consumer, Put
from journal.testing import ManualClock
from tests.engine.helpers import HANG_S, must_end
from tests.roles.consuming import Said, taken, tended


def test_closing_waits_for_what_is_handed_out(pages: journal.Journal) -> None:
    """A handler that is busy finishes; nothing more is begun."""
    pages.put_many([Put("a"), Put("b"), Put("c")])
    begun, may_end = threading.Event(), threading.Event()

    def handler(lease: journal.Lease) -> None:
        begun.set()
        assert may_end.wait(HANG_S)

    consumer = Consumer(pages, name="c", prefetch=2)
    consumer.subscribe(handler)
    assert begun.wait(HANG_S)
    consumer.unsubscribe()
    closing = threading.Thread(target=consumer.close, daemon=True)
    closing.start()
    may_end.set()
    must_end(closing.join)
    assert (pages.count(), pages.count(status="P")) == (2, 0)
    assert consumer._thread is not None and not consumer._thread.is_alive()
    consumer.close()


@pytest.mark.parametrize("options", [{"finish": False}, {"wait": 0}], ids=["at once", "no patience"])
def test_closing_without_waiting(pages: journal.Journal, options: dict[str, Any]) -> None:
    """What is held goes back to its place; a holder that works on is refused, and changes nothing."""
    pages.put("a")
    consumer = Consumer(pages, name="c")
    consumer.subscribe()
    lease = taken(consumer)
    consumer.close(**options)
    assert pages.count(status="W") == 1
    for late in (lease.done, lease.extend, lease.release, lambda: lease.bury("")):
        with pytest.raises(journal.LeaseLost):
            late()
    assert [(entry.key, entry.timeouts) for entry in pages.scan(status="W")] == [("a", 0)]
    with pytest.raises(journal.Refused, match="closed"):
        consumer.subscribe()


def test_a_block_that_raises_does_not_wait(pages: journal.Journal) -> None:
    """What is held is released at once."""
    pages.put("a")

    def work() -> None:
        with Consumer(pages, name="c") as consumer:
            consumer.subscribe()
            taken(consumer)
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert pages.count(status="W") == 1


def test_closing_from_inside_a_handler(pages: journal.Journal) -> None:
    """It returns at once, and the handler's own work is done."""
    pages.put_many([Put("a"), Put("b")])
    consumer = Consumer(pages, name="c", prefetch=2)
    must_end(lambda: consumer.run(lambda lease: consumer.close()))
    assert (pages.count(), pages.count(status="P")) == (1, 0)


@pytest.mark.parametrize("is_busy", [False, True], ids=["asleep", "holding"])
def test_the_store_is_closed_under_it(tmp_path: Path, clock: ManualClock, is_busy: bool) -> None:
    """Waiting ends; what it held stays with it for the next time."""
    store = journal.open(tmp_path / "s", clock=clock)
    pages = store.journal("pages")
    consumer = Consumer(pages, name="c")
    ended = threading.Event()
    said = Said()

    def work() -> None:
        for lease in consumer:
            said(lease)
        ended.set()

    thread = threading.Thread(target=work, daemon=True)
    if is_busy:
        pages.put("a")
    thread.start()
    if is_busy:
        said.until(lambda things: len(things) == 1)
    must_end(store.close)
    if is_busy:  # it waits for room, and learns of the end when its lease is looked after
        with pytest.raises(journal.StoreClosed):
            said.things[0].done()
        clock.advance(15_000)
        tended()
    assert ended.wait(HANG_S)
    consumer.close()
    with pytest.raises(journal.StoreClosed):
        consumer.subscribe()
    with journal.open(tmp_path / "s", clock=clock) as again:
        assert [lease.consumer for lease in again.journal("pages").leases()] == (["c"] if is_busy else [])
