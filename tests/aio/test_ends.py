"""The asynchronous face when it ends: closed, refused, failed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import journal
import journal.aio
from tests.engine.helpers import HANG_S, Failing


def test_closing_the_store_ends_workers_and_refuses_calls(tmp_path: Path) -> None:
    """The iterator ends, calls get StoreClosed, closing again is fine; nobody hangs."""

    async def main() -> None:
        store = await journal.aio.open(tmp_path / "s")
        pages = await store.journal("pages")

        async def worker() -> int:
            return sum([1 async for _ in pages.work()])

        task = asyncio.create_task(worker())
        for _ in range(20):
            await asyncio.sleep(0)
        await asyncio.wait_for(store.close(), 10)
        assert await asyncio.wait_for(task, 10) == 0
        for call in (pages.put("a"), pages.claim(), pages.count(), store.journals()):
            with pytest.raises(journal.StoreClosed):
                await asyncio.wait_for(call, 10)
        await asyncio.wait_for(store.close(), 10)

    asyncio.run(main())


def test_an_open_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    """The error is the blocking one's, and no thread stays."""

    async def main() -> None:
        async with await journal.aio.open(tmp_path / "s"):
            with pytest.raises(journal.StoreLocked):
                await journal.aio.open(tmp_path / "s")
        with pytest.raises(journal.Invalid):
            await journal.aio.open(tmp_path / "s", durability="best")

    asyncio.run(main())
    left = [t for t in threading.enumerate() if t.name.startswith("journal")]
    for thread in left:
        thread.join(HANG_S)
    assert [t.name for t in left if t.is_alive()] == []


def test_a_failed_sync_reaches_every_coroutine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """StoreFailed for all that waited, and nothing is acknowledged afterwards."""

    async def main() -> None:
        store = await journal.aio.open(tmp_path / "s")
        pages = await store.journal("pages")
        await pages.put("before")
        with monkeypatch.context() as patch:
            Failing(patch, "fdatasync", 5)
            results = await asyncio.gather(*(pages.put(f"k{i}") for i in range(20)), return_exceptions=True)
            assert {type(r) for r in results} == {journal.StoreFailed}
        with pytest.raises(journal.StoreFailed):
            await pages.put("after")
        await store.close()

    asyncio.run(main())
    with journal.open(tmp_path / "s") as again:
        assert again.journal("pages").get("before") is not None
        assert again.journal("pages").get("after") is None
        assert again.check() == []


def test_a_snapshot(tmp_path: Path) -> None:
    """Taken on a thread apart, closed at the end of the block."""

    async def main() -> None:
        async with await journal.aio.open(tmp_path / "s") as store:
            pages = await store.journal("pages")
            await pages.put_many([journal.Put(f"k{n}", n) for n in range(10)])
            async with await pages.snapshot() as shot:
                assert (shot.size, shot.is_closed) == (10, False)
                parts = await shot.parts(3)
                rows = await asyncio.to_thread(lambda: [len(b.values) for part in parts for b in part.read()])
                assert sum(rows) == 10
            assert shot.is_closed

    asyncio.run(main())
