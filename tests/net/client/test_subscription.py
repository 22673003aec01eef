"""Push over a real connection: leases that come by themselves, with credit, and go back when nobody takes them."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import journal
import journal.aio
from journal.net.client.connect import connect
from journal.net.server.server import Server
from tests.net.client.test_feed import cut
from tests.net.client.working import WAIT_S


@pytest.fixture
def store(tmp_path: Path) -> Iterator[journal.Store]:
    """An open store with the system's clock, checked at its end."""
    with journal.open(tmp_path / "work.journal") as opened:
        yield opened
        assert opened.check() == []


def until_leased(far: journal.Store, pages: journal.Journal, number: int) -> None:
    """Wait until so many leases are out."""
    while len(pages.leases()) != number:
        far.journals()


def test_leases_come_in_the_order_of_work_and_as_they_fall_due(
    far_pages: journal.Journal, pages: journal.Journal
) -> None:
    """What is there, what is put, and what is released."""
    pages.put_many([journal.Put(f"k{n}", n, priority=n) for n in range(40)])
    with far_pages.subscribe(consumer="one", lease="1h", credit=4) as leases:
        for n in range(40):
            lease = next(leases)
            assert (lease.key, lease.data, lease.consumer) == (f"k{n}", n, "one")
            lease.done()
        pages.put("later", delay="20ms")
        lease = next(leases)
        assert lease.key == "later"
        lease.release()
        assert next(leases).token != lease.token
    assert pages.count() == 1


def test_no_more_come_ahead_than_there_is_credit_and_the_rest_goes_back(
    far: journal.Store, far_pages: journal.Journal, pages: journal.Journal
) -> None:
    """To its place, when the subscription is closed; what was handed out stays with who has it."""
    pages.put_many([journal.Put(f"k{n}", priority=n) for n in range(20)])
    dates = {entry.key: entry.process_date for entry in pages.scan()}
    leases = far_pages.subscribe(consumer="one", lease="1h", credit=5)
    mine = next(leases)
    until_leased(far, pages, 5)
    second = next(leases)
    third = next(leases)
    until_leased(far, pages, 8)
    leases.close()
    leases.close()
    assert sorted(lease.key for lease in pages.leases()) == sorted([mine.key, second.key, third.key])
    assert {entry.key: entry.process_date for entry in pages.scan()} == dates
    assert list(leases) == []
    with mine, second, third:
        pass
    assert pages.count() == 17


def test_two_who_subscribe_share(server: Server, store: journal.Store, pages: journal.Journal) -> None:
    """Every entry goes to one of them."""
    done: queue.Queue[Any] = queue.Queue()

    def consume(far_pages: journal.Journal, name: str, ready: threading.Event) -> None:
        with far_pages.subscribe(consumer=name, credit=2) as leases:
            ready.set()
            for lease in leases:
                lease.done()
                done.put((lease.key, name))

    with connect(store.path) as one, connect(store.path) as two:
        for far, name in ((one, "one"), (two, "two")):
            ready = threading.Event()
            threading.Thread(target=consume, args=(far.journal("pages"), name, ready), daemon=True).start()
            assert ready.wait(WAIT_S)
        pages.put_many([journal.Put(f"k{n}") for n in range(100)])
        found = [done.get(timeout=WAIT_S) for _ in range(100)]
        assert {key for key, _ in found} == {f"k{n}" for n in range(100)} and {name for _, name in found} == {
            "one",
            "two",
        }


def test_what_is_worked_on_does_not_come_twice_when_the_connection_breaks(
    far: journal.Store, far_pages: journal.Journal, pages: journal.Journal, server: Server
) -> None:
    """The daemon sends the consumer's leases again; those that the program has are known here."""
    pages.put_many([journal.Put(f"k{n}", priority=n) for n in range(6)])
    with far_pages.subscribe(consumer="one", lease="1h", credit=3) as leases:
        first = [next(leases), next(leases)]
        cut(server)
        rest = [next(leases) for _ in range(4)]
        assert [lease.key for lease in first + rest] == [f"k{n}" for n in range(6)]
        assert len({lease.token for lease in first + rest}) == 6
        assert far_pages.done_many(first + rest) == [None] * 6
        pages.put("next")
        assert next(leases).key == "next"


def test_a_subscription_survives_a_restart_of_the_daemon(store: journal.Store, pages: journal.Journal) -> None:
    """It is made again at the next one."""
    server = store.serve()
    with connect(store.path) as far, far.journal("pages").subscribe(consumer="one", lease="1h") as leases:
        for n in range(3):
            pages.put(f"k{n}")
            lease = next(leases)
            assert lease.key == f"k{n}"
            server.stop()
            assert server.join(WAIT_S)
            server = store.serve()
            lease.done()
    assert pages.count() == 0
    server.stop()
    assert server.join(WAIT_S)


def test_a_dropped_journal_ends_it_with_the_error(
    far: journal.Store, far_pages: journal.Journal, store: journal.Store, pages: journal.Journal
) -> None:
    """And closing the connection ends it without one."""
    other = far.journal("other").subscribe(consumer="one")
    leases = far_pages.subscribe(consumer="one")
    pages.put("a")
    assert next(leases).key == "a"
    store.drop("pages")
    with pytest.raises(journal.NotFound, match="was dropped"):
        next(leases)
    assert list(leases) == []
    leases.close()
    ended = threading.Event()
    threading.Thread(target=lambda: (list(other), ended.set()), daemon=True).start()
    far.close()
    assert ended.wait(WAIT_S)


def test_a_dropped_journal_ends_it_behind_what_has_come(
    far: journal.Store, far_pages: journal.Journal, store: journal.Store, pages: journal.Journal
) -> None:
    """Also when no more may come ahead."""
    pages.put_many([journal.Put(f"k{n}", priority=n) for n in range(4)])
    with far_pages.subscribe(consumer="one", lease="1h", credit=2) as leases:
        until_leased(far, pages, 2)
        store.drop("pages")
        assert [next(leases).key, next(leases).key] == ["k0", "k1"]
        with pytest.raises(journal.NotFound, match="was dropped"):
            next(leases)


def test_arguments_are_checked(far_pages: journal.Journal) -> None:
    """Before anything is asked."""
    for credit in (0, -1, True, 10_001):
        with pytest.raises(journal.Invalid, match="credit"):
            far_pages.subscribe(credit=credit)
    with pytest.raises(journal.Invalid, match="lease"):
        far_pages.subscribe(lease=0)


def test_asyncio(server: Server, store: journal.Store, pages: journal.Journal) -> None:
    """Awaited; one that comes for somebody who was cancelled is kept for the next, and given back at the end."""

    async def main() -> None:
        async with await journal.aio.connect(store.path) as far:
            far_pages = await far.journal("pages")
            leases = await far_pages.subscribe(consumer="one", lease="1h", credit=1)
            waiting = asyncio.ensure_future(anext(leases))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await far_pages.put("a")
            lease = await asyncio.wait_for(anext(leases), WAIT_S)
            assert lease.key == "a"
            await lease.done()
            waiting = asyncio.ensure_future(anext(leases))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await far_pages.put("b")
            while not pages.leases():
                await far.journals()
            await leases.close()
            assert not pages.leases() and (await far_pages.get("b")) is not None

    asyncio.run(main())
