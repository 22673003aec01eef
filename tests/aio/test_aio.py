"""The asynchronous face: the same verbs, shared syncs, a loop that never waits for a disk."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import journal
import journal.aio
from journal import Put
from journal.aio.runner import _Call
from journal.engine.work import bucket_index_build
from journal.testing import ManualClock
from tests.engine.helpers import HANG_S, Failing
from tests.engine.loads.blocks import many
from tests.engine.work.claims.sharing import bucket

Body = Callable[[journal.aio.AsyncStore, journal.aio.AsyncJournal], Coroutine[Any, Any, None]]


@pytest.fixture
def run(tmp_path: Path, clock: ManualClock) -> Callable[[Body], None]:
    """Runs a coroutine with an open store and a journal, then checks the store."""

    def runner(body: Body) -> None:
        async def main() -> None:
            async with await journal.aio.open(tmp_path / "s", clock=clock) as store:
                pages = await store.journal("pages", timeouts_max=0)
                await asyncio.wait_for(body(store, pages), 30)
                assert await store.check() == []

        asyncio.run(main())

    return runner


class SlowSync:
    """fdatasync that waits for an event."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real = os.fdatasync
        self.entered = threading.Event()
        self.open = threading.Event()
        monkeypatch.setattr(os, "fdatasync", self)

    def __call__(self, fd: int) -> None:
        self.entered.set()
        assert self.open.wait(HANG_S)
        self._real(fd)


async def happens(event: threading.Event) -> None:
    """Wait for a thread's event without blocking the loop."""
    assert await asyncio.get_running_loop().run_in_executor(None, event.wait, HANG_S)


def test_every_verb_has_its_coroutine() -> None:
    """What a blocking class can do, the asynchronous one can; new verbs are not forgotten."""
    pairs = [
        (journal.Journal, journal.aio.AsyncJournal),
        (journal.Store, journal.aio.AsyncStore),
        (journal.MergedJournals, journal.aio.AsyncMergedJournals),
        (journal.Lease, journal.aio.AsyncLease),
    ]
    of_lease = {name for name, member in vars(journal.Lease).items() if isinstance(member, property)}
    values = {
        "settings",
        "shows_all",
        "has_bucket_index",
        "is_remote",
        "wake",
        "path",
        "within",
        *journal.Lease.__slots__,
        *of_lease,
    }
    for blocking, asynchronous in pairs:
        verbs = {name for name in dir(blocking) if not name.startswith("_")} - values
        assert verbs - set(dir(asynchronous)) == set(), asynchronous


def test_loads(run: Callable[[Body], None]) -> None:
    """load; load_begin, parts, commit and abort."""

    async def body(_: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        assert (await pages.load([many(5)], once=("n", 1))).inserted == 5
        async with await pages.load_begin() as load:
            async with await load.part("x") as part:
                await part.write(many(5, 5))
            other = await pages.load_part(load.id, "y")
            await other.write(many(5, 10))
            assert (other.name, (await other.close())[0]) == ("y", 5)
            assert (await load.commit(["x", "y"])).inserted == 10
        async with await pages.load_begin() as load:
            await (await load.part("x")).close()
            await load.abort()
        async with await pages.load_begin() as left:
            pass
        assert not await pages.load_abort(left.id)
        with pytest.raises(journal.NotFound):
            await pages.load_commit(left.id, [])
        assert await pages.count() == 15

    run(body)


def test_producers(run: Callable[[Body], None]) -> None:
    """put, create, put_many, get, move, delete, scan, count."""

    async def body(_: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        assert (await pages.put("a", 1, priority=5)).outcome == "inserted"
        assert (await pages.put("a", 2)).outcome == "merged"
        with pytest.raises(journal.KeyExists):
            await pages.create("a")
        results = await pages.put_many([Put("b", 3), Put("", 4)])
        assert [type(r).__name__ for r in results] == ["PutResult", "Invalid"]
        entry = await pages.get("a")
        assert entry is not None and (entry.data, entry.priority) == (2, 5)
        assert (await pages.move("b", priority=1)).priority == 1
        assert [e.key async for e in pages.scan()] == ["b", "a"]
        assert [e.key async for e in pages.scan(status="P")] == []
        assert await pages.count() == 2
        assert await pages.delete("b") is True
        assert await pages.get("b") is None
        cursor = (await pages.put("c")).cursor
        await pages.wait_durable(cursor)
        assert pages.durable_cursor >= cursor
        assert pages.name == "pages"

    run(body)


def test_consumers(run: Callable[[Body], None], clock: ManualClock) -> None:
    """claim, extend, release, bury, retry, discard, done, leases; by lease and by token."""

    async def body(store: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        assert await pages.claim() is None
        await pages.put_many([Put("a", 1), Put("b", 2), Put("c", 3), Put("d", 4)])
        lease = await pages.claim(consumer="c", lease="1m")
        assert lease is not None and lease.consumer == "c"
        assert await lease.extend("1h") == clock.now() + 3_600_000 == lease.deadline
        assert [x.token for x in await pages.leases(consumer="c")] == [lease.token]
        await lease.release(delay="1h")
        with pytest.raises(journal.LeaseLost):
            await lease.done()
        one, two, three = await pages.claim_many(5, lease="1m")
        await one.bury("bad")
        assert [b.reason for b in await pages.buried()] == ["bad"]
        assert (await pages.retry(one.key)).priority == 100
        results = await pages.done_many([two, three.token, 5])
        assert [type(r).__name__ for r in results] == ["NoneType", "NoneType", "LeaseLost"]
        await pages.done(two.token)
        again = await pages.claim(lease=10)
        assert again is not None
        clock.advance(10)
        assert [f.count for f in await store.flags()] == [1]
        await store.lower((await store.flags())[0])
        await pages.discard(again.key)
        assert await pages.count() == 1
        await store.checkpoint()
        assert (await pages.statistics())["entries"] == 1
        assert (await store.statistics())["journals"].keys() == {"pages"}
        assert await store.journals() == ["pages"]

    run(body)


def test_roles(run: Callable[[Body], None], clock: ManualClock) -> None:
    """Groups, selections, owners, claims by key, the load ahead, flags and drifts."""

    async def body(store: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        assert await pages.now() == clock.now()
        puts = [Put(key, key, owner="g") for key in "abcd"]
        assert {r.outcome for r in await pages.create_many(puts)} == {"inserted"}
        assert {r.outcome for r in await pages.create_many(puts, is_repeatable=True)} == {"exists"}
        assert (await pages.create("a", "a", owner="g", is_repeatable=True)).outcome == "exists"
        moved = await pages.move_many([journal.Move("a", priority=1, owner="g"), journal.Move("x", delay=1)])
        assert [type(r).__name__ for r in moved] == ["PutResult", "NotFound"]
        assert await pages.delete_many([journal.Delete("b", owner="g"), "x"]) == [True, False]
        assert [e and e.key for e in await pages.get_many("abc")] == ["a", None, "c"]
        page = await pages.select(limit=1)
        assert [e.key for e in page] == ["a"] and page.has_more
        assert len(await pages.select(limit=9, after=page.after, buckets=journal.Range(0, 1024))) == 2
        assert len(await pages.entries_of("g")) == await pages.count_of("g") == 3
        assert await pages.owners() == {"g": 3}
        lease = await pages.claim_key("c", consumer="mail-1")
        assert (lease.key, lease.owner, lease.start) == ("c", "g", clock.now())
        assert (await pages.lease(lease)).token == (await pages.lease(lease.token)).token == lease.token
        assert await pages.count(consumer="mail-1") == 1
        assert (await pages.forecast()).overdue.by_status == {"W": 2, "P": 1}
        await pages.raise_flag("look", "at this")
        for _ in range(2):
            is_off = await pages.measure_drift("mail-1", 0, 500, 500, 1)
        assert is_off and store.drifts.flagged == ["mail-1"]
        assert sorted(flag.name for flag in await store.flags()) == ["drift", "look"]

    run(body)


def test_a_look_at_leases_that_is_cancelled_releases_none(run: Callable[[Body], None]) -> None:
    """They belong to somebody who works."""

    async def body(_: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        await pages.put("a")
        lease = await pages.claim(consumer="c")
        assert lease is not None
        for look in (lambda: pages.leases(), lambda: pages.lease(lease.token)):
            task = asyncio.ensure_future(look())
            await asyncio.sleep(0)  # it is on its way
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await pages.count(status="P") == 1
        assert [each.token for each in await pages.leases()] == [lease.token]
        await lease.done()

    run(body)


def test_a_block_finishes_or_releases(run: Callable[[Body], None]) -> None:
    """async with: done when it ends, released when it raises, left alone when it was ended inside."""

    async def body(_: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        await pages.put("a")
        lease = await pages.claim()
        assert lease is not None
        with pytest.raises(KeyError):
            async with lease:
                raise KeyError
        assert await pages.count(status="W") == 1
        lease = await pages.claim()
        assert lease is not None
        async with lease:
            await lease.release()
        lease = await pages.claim()
        assert lease is not None
        async with lease:
            pass
        assert await pages.count() == 0

    run(body)


def test_many_coroutines_share_syncs(run: Callable[[Body], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred puts at once cost far fewer than two hundred syncs, and all are answered in order of their calls."""

    async def body(_: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        disk = Failing(monkeypatch, "fdatasync")
        results = await asyncio.gather(*(pages.put(f"k{i}") for i in range(200)))
        assert disk.calls <= 100
        offsets = [r.cursor.offset for r in results]
        assert offsets == sorted(set(offsets))
        assert pages.durable_cursor >= results[-1].cursor

    run(body)


def test_the_loop_does_not_wait_for_a_slow_disk(run: Callable[[Body], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """While a sync is under way other coroutines run, calls are applied, and nothing is answered too early."""

    async def body(_: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        disk = SlowSync(monkeypatch)
        first = asyncio.create_task(pages.put("a"))
        await happens(disk.entered)
        second = asyncio.create_task(pages.put("b"))
        turns = 0
        for _ in range(1000):
            await asyncio.sleep(0)
            turns += 1
        assert turns == 1000
        assert not first.done() and not second.done()
        quick = await pages.put("c", durability="interval")
        assert quick.outcome == "inserted"
        assert not first.done()
        disk.open.set()
        assert [r.outcome for r in await asyncio.gather(first, second)] == ["inserted", "inserted"]

    run(body)


def test_claims_by_buckets(run: Callable[[Body], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The index is made on a thread apart: other verbs go on meanwhile."""
    began, go_on = threading.Event(), threading.Event()
    real = bucket_index_build.extend

    def held(*args: Any) -> int:
        taken = real(*args)
        if not began.is_set():
            began.set()
        return taken

    def pause(seconds: float) -> None:
        assert go_on.wait(HANG_S)

    monkeypatch.setattr(bucket_index_build, "extend", held)
    monkeypatch.setattr(bucket_index_build, "sleep", pause)

    async def body(store: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        part = journal.Range(0, 512)
        await pages.put_many([Put(f"k{n}", n) for n in range(20)])
        with pytest.raises(journal.Invalid, match="must be a journal"):
            await pages.claim(buckets="0-511")
        claim = asyncio.create_task(pages.claim(buckets=part))
        await happens(began)
        await pages.put("urgent", priority=0)
        assert not claim.done()
        go_on.set()
        first = await claim
        rest = await pages.claim_many(50, buckets=part)
        others = await pages.claim_many(50)
        assert len({lease.key for lease in (first, *rest, *others)}) == 21
        assert len(rest) and len(others)
        await pages.put_many([Put(f"w{n}") for n in range(20)])
        async for lease in pages.work(buckets=journal.Range(512, 1024)):
            assert bucket(lease.key, 1024) >= 512
            break

    run(body)


def test_a_cancelled_claim_goes_back(run: Callable[[Body], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody will get its lease: another worker gets the entry, and no timeout is counted."""

    async def body(_: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        await pages.put("a")
        await pages.put("b", delay="1h")
        with monkeypatch.context() as patch:
            disk = SlowSync(patch)
            claim = asyncio.create_task(pages.claim(durability="full"))
            await happens(disk.entered)
            claim.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claim
            disk.open.set()
        async for lease in pages.work():
            assert (lease.key, lease.timeouts) == ("a", 0)
            await lease.done()
            break
        assert await pages.count() == 1

    run(body)


def test_a_cancelled_claim_many_goes_back(run: Callable[[Body], None]) -> None:
    """All leases of it, even when it is cancelled before it was applied."""

    async def body(_: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        await pages.put_many([Put(f"k{i}") for i in range(5)])
        claim = asyncio.create_task(pages.claim_many(5))
        await asyncio.sleep(0)
        claim.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claim
        keys = set()
        async for lease in pages.work():
            keys.add(lease.key)
            await lease.done()
            if len(keys) == 5:
                break
        assert await pages.count() == 0

    run(body)


def test_a_cancelled_put_stands_or_not_but_nothing_breaks(run: Callable[[Body], None]) -> None:
    """As with a lost reply: the caller asks again, and the key is there once."""

    async def body(_: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        put = asyncio.create_task(pages.put("a", 1))
        await asyncio.sleep(0)
        put.cancel()
        with pytest.raises(asyncio.CancelledError):
            await put
        assert (await pages.put("a", 2)).outcome in {"inserted", "merged"}
        assert await pages.count() == 1

    run(body)


def test_work_wakes_for_a_put_and_for_the_timer(run: Callable[[Body], None], clock: ManualClock) -> None:
    """Leases as they fall due, while the loop does other things."""

    async def body(_: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        got: asyncio.Queue[object] = asyncio.Queue()

        async def worker() -> None:
            async for lease in pages.work(consumer="w"):
                async with lease:
                    got.put_nowait(lease.key)

        task = asyncio.create_task(worker())
        await pages.put("now")
        await pages.put("later", delay=1000)
        assert await got.get() == "now"
        assert got.empty()
        clock.advance(1000)
        assert await got.get() == "later"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(body)


def test_a_cancelled_worker_takes_nothing_along(run: Callable[[Body], None]) -> None:
    """What falls due after the cancel is for others."""

    async def body(_: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        async def worker() -> None:
            async for lease in pages.work():
                await lease.done()

        tasks = [asyncio.create_task(worker()) for _ in range(3)]
        await pages.put("a")
        while await pages.count():
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await pages.put("b")
        async for lease in pages.work():
            assert lease.key == "b"
            await lease.done()
            break
        assert await pages.count() == 0

    run(body)


def test_what_was_cancelled_is_undone_also_when_the_loop_ends_in_that_moment() -> None:
    """The loop takes the answer, and is closed before it has looked at it."""
    loop = asyncio.new_event_loop()
    undone = threading.Event()
    call = _Call(lambda: "opened", loop, lambda result: undone.set() if result == "opened" else None)
    call.apply()
    call.future.cancel()
    call.answer()
    loop.close()
    assert undone.wait(100)
