"""journal.aio over a connection: the same names, awaited; nothing is lost when somebody is cancelled."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import journal
import journal.aio
from journal.aio.roles import AsyncConsumer, AsyncProducer
from journal.net.client.connect import connect
from journal.net.client.connection.options import Backoff
from journal.net.server.server import Server
from tests.net.client.connection.test_link import Held, answer
from tests.net.client.daemon import TinyDaemon
from tests.net.client.small import Small
from tests.net.client.working import WAIT_S


@pytest.fixture
def store(tmp_path: Path) -> Iterator[journal.Store]:
    """An open store with the system's clock, checked at its end."""
    with journal.open(tmp_path / "work.journal") as opened:
        yield opened
        assert opened.check() == []


def test_verbs_are_those_of_the_library(server: Server, store: journal.Store, pages: journal.Journal) -> None:
    """Producing, consuming, reading and keeping; errors are raised where they are awaited."""

    async def main() -> None:
        async with await journal.aio.connect(store.path, name="backend-1") as far:
            far_pages = await far.journal("pages", processing_timeout="1m")
            assert (await far_pages.put("a", {"n": 1}, priority=1)).outcome == "inserted"
            with pytest.raises(journal.KeyExists):
                await far_pages.create("a", 1)
            await far_pages.put_many([journal.Put(f"k{n}", n, priority=n + 2) for n in range(5)])
            assert (await far_pages.get("a")).data == {"n": 1}  # type: ignore[union-attr]
            lease = await far_pages.claim(lease="30s")
            assert lease is not None and lease.key == "a" and lease.consumer == "backend-1"
            assert (await far_pages.lease(lease)).token == lease.token
            await lease.extend("1m")
            async with lease:
                pass
            many = await far_pages.claim_many(2, consumer="two")
            assert [found.key for found in await far_pages.leases(consumer="two")] == [found.key for found in many]
            assert await far_pages.done_many(list(many)) == [None, None]
            assert [entry.key async for entry in far_pages.scan()] == ["k2", "k3", "k4"]
            picked = await far_pages.claim_key("k3")
            await picked.bury("unreadable")
            assert [buried.entry.key for buried in await far_pages.buried()] == ["k3"]
            part = journal.Range.parse("0-511")
            assert (await far_pages.claim(buckets=part) is None) == (pages.count(buckets=part) == 0)
            assert await far.journals() == ["pages"] and await far.check() == []
            assert await far_pages.measure_drift("me", 0, 0, 0, 0) is False
            merged = await far.merged()
            assert await merged.generations() == store.merged().generations()

    asyncio.run(main())


def test_many_calls_are_under_way_at_a_time_and_keep_their_order(
    server: Server, store: journal.Store, pages: journal.Journal
) -> None:
    """More than there are threads; what was asked first is done first."""

    async def main() -> None:
        async with await journal.aio.connect(store.path) as far:
            far_pages = await far.journal("pages")
            results = await asyncio.gather(*[far_pages.put(f"k{n}", n) for n in range(300)])
            cursors = [result.cursor for result in results]
            assert cursors == sorted(cursors) and pages.count() == 300

    asyncio.run(main())


def test_work_and_feeds(server: Server, store: journal.Store, pages: journal.Journal) -> None:
    """Sleep on threads of their own, and end with their iterators."""

    async def main() -> None:
        async with await journal.aio.connect(store.path) as far:
            far_pages = await far.journal("pages")
            got: list[Any] = []

            async def backend() -> None:
                async for lease in far_pages.work(consumer="one"):
                    async with lease:
                        got.append(lease.key)
                    if len(got) == 3:
                        return

            async def follow() -> list[Any]:
                async with await far_pages.feed(consumer="audit") as feed:
                    keys = []
                    async for event in feed:
                        await feed.ack(event)
                        keys.append(event.key)
                        if len(keys) == 3:
                            return keys
                raise AssertionError

            working, following = asyncio.create_task(backend()), asyncio.create_task(follow())
            for key in ("a", "b", "c"):
                await far_pages.put(key)
            await asyncio.wait_for(working, WAIT_S)
            assert sorted(got) == ["a", "b", "c"]
            assert "a" in await asyncio.wait_for(following, WAIT_S)

    asyncio.run(main())
    assert [lease.key for lease in pages.leases()] == []


def test_a_cancelled_claim_is_given_back(tmp_path: Path, small: Small) -> None:
    """Its answer comes when nobody waits for it any more."""
    held = Held(small, "CLAIM")
    small.entries["a"] = {"data": b"\xc0"}

    async def main(tiny: TinyDaemon) -> None:
        async with await journal.aio.connect(tiny.address) as far:
            pages = await far.journal("pages")
            claim = asyncio.create_task(pages.claim(consumer="one"))
            assert await asyncio.to_thread(held.came.acquire, timeout=WAIT_S)
            claim.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claim
            await asyncio.to_thread(answer, tiny, held)
            while not any(asked.command.name == "RELEASE" for asked in tiny.asked):
                await pages.get("a")
            assert not small.leases

    with TinyDaemon(tmp_path / "s", held) as tiny:
        asyncio.run(main(tiny))


def test_cancelled_work_holds_no_lease(server: Server, store: journal.Store, pages: journal.Journal) -> None:
    """A worker that is cancelled while it waits takes nothing with it."""

    async def main() -> None:
        async with await journal.aio.connect(store.path) as far:
            far_pages = await far.journal("pages")

            async def backend() -> None:
                async for lease in far_pages.work(consumer="one"):
                    await lease.done()

            for n in range(20):
                task = asyncio.create_task(backend())
                await asyncio.sleep(0)
                putting = asyncio.create_task(far_pages.put(f"k{n}"))
                for _ in range(n % 5):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await putting
            while pages.leases():
                await far.journals()
            rest = [lease.key for lease in await far_pages.claim_many(20, consumer="two")]
            assert len(rest) == pages.count()

    asyncio.run(main())


def join_crews() -> None:
    """Wait until no thread of a connection is left."""
    for thread in threading.enumerate():
        if thread.name == "journal-aio-connection":
            thread.join(WAIT_S)
            assert not thread.is_alive()


def test_a_cancelled_connect_leaves_no_connection(server: Server, store: journal.Store) -> None:
    """Neither before it is there nor after."""

    async def main() -> None:
        task = asyncio.create_task(journal.aio.connect(store.path))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    join_crews()
    with connect(store.path) as far:
        while len(server.hub.peers) > 1:
            far.journals()


def test_who_finds_no_daemon_is_told(tmp_path: Path) -> None:
    """With the error of the blocking client; no thread stays behind."""
    backoff = Backoff(first="1ms", most="1ms", total="5ms")

    async def main() -> None:
        with pytest.raises(journal.ConnectionLost, match="no daemon"):
            await journal.aio.connect(tmp_path / "nowhere", backoff=backoff)

    asyncio.run(main())
    join_crews()


def test_a_closed_connection_refuses(server: Server, store: journal.Store) -> None:
    """Closing twice is fine."""

    async def main() -> None:
        far = await journal.aio.connect(store.path)
        pages = await far.journal("pages")
        await far.close()
        await far.close()
        with pytest.raises(journal.StoreClosed):
            await pages.put("a")

    asyncio.run(main())


def test_roles(server: Server, store: journal.Store, pages: journal.Journal) -> None:
    """Producers and consumers of asyncio take a journal from afar."""

    async def main() -> None:
        async with await journal.aio.connect(store.path) as far:
            far_pages = await far.journal("pages")
            billing = AsyncProducer(far_pages, group="billing")
            for n in range(5):
                await billing.publish({"n": n}, key=f"k{n}")
            got: list[Any] = []
            async with AsyncConsumer(far_pages, name="mail-1", prefetch=3) as mails:

                async def handle(lease: Any) -> None:
                    got.append(lease.key)
                    if len(got) == 5:
                        await mails.unsubscribe()

                await asyncio.wait_for(mails.run(handle), WAIT_S)
            assert sorted(got) == [f"k{n}" for n in range(5)] and await billing.count() == 0

    asyncio.run(main())
    assert pages.count() == 0


def test_every_verb_waits() -> None:
    """As a coroutine or an asynchronous iterator."""
    here = {name for name in dir(journal.aio.AsyncJournal) if not name.startswith("_")}
    for name in here - {"name", "schema", "shows_all", "durable_cursor", "oldest_cursor"}:
        thing = inspect.unwrap(getattr(journal.aio.AsyncJournal, name))
        assert inspect.iscoroutinefunction(thing) or inspect.isasyncgenfunction(thing), name
