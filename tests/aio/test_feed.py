"""The feed for asyncio: the same deliveries and acknowledgements, and a loop that never waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import journal
import journal.aio
from journal import Cursor
from journal.testing import ManualClock

Body = Callable[[journal.aio.AsyncStore, journal.aio.AsyncJournal], Coroutine[Any, Any, None]]


@pytest.fixture
def run(tmp_path: Path, clock: ManualClock) -> Callable[[Body], None]:
    """Runs a coroutine with an open store and a journal, then checks the store."""

    def runner(body: Body) -> None:
        async def main() -> None:
            async with await journal.aio.open(tmp_path / "s", clock=clock) as store:
                pages = await store.journal("pages")
                await asyncio.wait_for(body(store, pages), 30)
                assert await store.check() == []

        asyncio.run(main())

    return runner


def test_a_feed_is_an_asynchronous_iterator(run: Callable[[Body], None]) -> None:
    """It delivers, takes acknowledgements, fails and goes on like the blocking one."""

    async def body(store: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        for key in "abc":
            await pages.put(key, key)
        async with await pages.feed(consumer="audit", live=False) as feed:
            events = [event async for event in feed]
            assert [event.key for event in events] == ["a", "b", "c"]
            await feed.ack(events[0], events[2])
            await feed.fail()
            again = await anext(feed)
            assert (again.key, feed.is_redelivering, feed.position) == ("b", True, Cursor(1, 0))
            await feed.ack(again)
            assert (feed.position, feed.lag) == (Cursor(1, 2), 0)
        assert [(view.name, view.is_open) for view in await pages.feeds()] == [("audit", False)]
        await pages.mark_feed("audit", Cursor(1, 0))
        assert await pages.skip_feed("audit", Cursor(1, 1))
        await pages.remove_feed("audit")
        assert await pages.feeds() == []

    run(body)


def test_a_live_feed_waits_beside_the_loop(run: Callable[[Body], None]) -> None:
    """Puts of the same loop wake it; closing it ends the loop over it."""

    async def body(store: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        feed = await pages.feed(consumer="audit")
        seen: list[Any] = []

        async def follow() -> None:
            async for event in feed:
                seen.append(event.key)
                await feed.ack(event)
                if len(seen) == 3:
                    await feed.close()

        task = asyncio.create_task(follow())
        for key in "abc":
            await pages.put(key)
        await task
        assert seen == ["a", "b", "c"]
        assert (await pages.feeds())[0].position == Cursor(1, 2)

    run(body)


def test_a_cancelled_wait_loses_no_event(run: Callable[[Body], None]) -> None:
    """What came for it is there for the next who asks."""

    async def body(store: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        async with await pages.feed() as feed:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(feed), 0.01)
            await pages.put("a")
            assert (await anext(feed)).key == "a"
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(feed), 0.01)

    run(body)


def test_closing_the_store_ends_a_feed(tmp_path: Path) -> None:
    """A loop over a live feed ends without an error."""

    async def main() -> None:
        store = await journal.aio.open(tmp_path / "s")
        pages = await store.journal("pages")
        await pages.put("a")
        feed = await pages.feed(consumer="audit")
        assert (await anext(feed)).key == "a"
        rest = asyncio.create_task(anext(feed, None))
        await asyncio.wait([rest], timeout=0.01)
        await store.close()
        assert await asyncio.wait_for(rest, 5) is None

    asyncio.run(main())
