"""Producers and consumers for asyncio: the same promises, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import journal
import journal.aio
from journal import Put, Retry
from journal.aio import AsyncJournal, AsyncLease
from journal.aio.roles import AsyncConsumer, AsyncProducer
from journal.testing import ManualClock
from tests.roles.consuming import tended

Body = Callable[[AsyncJournal], Coroutine[Any, Any, None]]


@pytest.fixture
def run(tmp_path: Path, clock: ManualClock) -> Callable[[Body], None]:
    """Runs a coroutine with a journal, then checks the store."""

    def runner(body: Body) -> None:
        async def main() -> None:
            async with await journal.aio.open(tmp_path / "s", clock=clock) as store:
                await asyncio.wait_for(body(await store.journal("pages")), 30)
                assert await store.check() == []

        asyncio.run(main())

    return runner


def test_every_verb_has_its_coroutine() -> None:
    """What a blocking role can do, the asynchronous one can, or has as a value."""
    values = {"care", "health", "counts", "time", "armed_at", "use", "tick"}
    for blocking, asynchronous in ((journal.Consumer, AsyncConsumer), (journal.Producer, AsyncProducer)):
        verbs = {name for name in dir(blocking) if not name.startswith("_")} - values
        known = set(dir(asynchronous)) | {"buckets", "is_subscribed", "held", "holds", "statistics"}
        assert verbs - known == set(), asynchronous


def test_leases_as_they_fall_due(run: Callable[[Body], None], clock: ManualClock) -> None:
    """What is due, then what falls due while it waits; and an end."""

    async def body(pages: AsyncJournal) -> None:
        await pages.put("later", delay=1000)
        await pages.put("now")
        keys = []
        async with AsyncConsumer(pages, name="c") as consumer:
            async for lease in consumer:
                keys.append(lease.key)
                await lease.done()
                if len(keys) == 1:
                    clock.advance(1000)
                else:
                    await consumer.unsubscribe()
            assert await consumer.take() is None
            assert consumer.statistics()["done"] == 2
        assert keys == ["now", "later"]
        assert await pages.count() == 0

    run(body)


def test_handlers_at_a_time(run: Callable[[Body], None]) -> None:
    """As many as prefetch says; who returns is done, who raises waits, who answered has the last word."""

    async def body(pages: AsyncJournal) -> None:
        await pages.put_many([Put(f"{n}", n) for n in range(20)])
        at_a_time = most = 0
        full = asyncio.Event()
        seen: list[Any] = []
        consumer = AsyncConsumer(pages, name="c", prefetch=5, retry=Retry(first="1h", cap="1h", jitter=0))

        async def handler(lease: AsyncLease) -> None:
            nonlocal at_a_time, most
            at_a_time += 1
            most = max(most, at_a_time)
            if at_a_time == 5:
                full.set()
            await full.wait()  # the first of them, until there are as many as there may be
            await pages.count()
            at_a_time -= 1
            seen.append(lease.key)
            if len(seen) == 20:
                await consumer.unsubscribe()
            if lease.data == 7:
                raise ValueError
            if lease.data == 8:
                await lease.bury("no")

        await consumer.run(handler)
        await consumer.close()
        assert sorted(seen, key=int) == [f"{n}" for n in range(20)]
        assert most == 5
        assert [(e.key, e.timeouts) async for e in pages.scan()] == [("7", 1)]
        assert [b.reason for b in await pages.buried()] == ["no"]

    run(body)


def test_a_lease_is_extended_while_the_loop_is_busy(run: Callable[[Body], None], clock: ManualClock) -> None:
    """The watch is no part of the loop."""

    async def body(pages: AsyncJournal) -> None:
        await pages.put("a")
        async with AsyncConsumer(pages, name="c", lease="30s") as consumer:
            await consumer.subscribe()
            lease = await consumer.take_nowait()
            assert lease is not None
            clock.advance(15_000)
            tended()  # blocks the loop
            assert lease.deadline == clock.now() + 30_000
            assert await consumer.done_many([lease]) == [None]

    run(body)


def test_a_cancelled_wait_loses_nothing(run: Callable[[Body], None], clock: ManualClock) -> None:
    """The lease that came meanwhile is for the next one who asks, or goes back."""

    async def body(pages: AsyncJournal) -> None:
        consumer = AsyncConsumer(pages, name="c")
        await consumer.subscribe()
        for key in ("a", "b"):
            waiting = asyncio.ensure_future(consumer.take())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await pages.put(key)
            if key == "a":
                lease = await consumer.take()
                assert lease is not None and lease.key == "a"
                await lease.done()
        await consumer.close()
        assert [(e.key, e.timeouts) async for e in pages.scan(status="W")] == [("b", 0)]

    run(body)


def test_a_cancelled_handler_has_not_failed(run: Callable[[Body], None]) -> None:
    """Its entry goes back to its place."""

    async def body(pages: AsyncJournal) -> None:
        await pages.put("a")
        consumer = AsyncConsumer(pages, name="c")
        begun = asyncio.Event()

        async def handler(lease: AsyncLease) -> None:
            begun.set()
            await asyncio.Event().wait()

        running = asyncio.ensure_future(consumer.run(handler))
        await begun.wait()
        running.cancel()
        assert isinstance((await asyncio.gather(running, return_exceptions=True))[0], asyncio.CancelledError)
        await consumer.close(finish=False)
        assert [(e.key, e.timeouts) async for e in pages.scan(status="W")] == [("a", 0)]

    run(body)


def test_producers(run: Callable[[Body], None], clock: ManualClock) -> None:
    """Publish once, read, merge, move, cancel."""

    async def body(pages: AsyncJournal) -> None:
        producer = AsyncProducer(pages, group="g")
        key = producer.new_key()
        assert (await producer.publish(1, key=key, delay="1h")).outcome == "inserted"
        assert (await producer.publish(1, key=key, delay="1h")).outcome == "exists"
        assert (await producer.get(key)).owner == "g"
        assert (await producer.put(key, 2)).outcome == "merged"
        assert (await producer.move(key, priority=1)).priority == 1
        assert not await producer.report_clock(clock.now())
        assert await producer.delete(key)
        async with AsyncConsumer(pages, name="c") as consumer:
            assert not await consumer.report_clock(clock.now())
            assert repr(consumer) == "<AsyncConsumer c of pages>"

    run(body)
