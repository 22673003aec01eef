"""
The same journal for asyncio: every verb of Store, Journal and Lease as a coroutine.

    async with await journal.aio.open("work.journal") as store:
        pages = await store.journal("pages")
        await pages.put("/home", {"uri": "/home"})
        async for lease in pages.work(consumer="backend-1"):
            async with lease: ...

There is no second implementation: a verb here is the verb of the blocking class, run on a thread of the store's own.
Its sync is not waited for there: a second thread waits for the syncs of all calls together, so that many coroutines
share one, and the loop never blocks on a disk or a lock.

Z1  A coroutine returns when its record is as durable as was asked, like the blocking call.
Z2  Calls of one store are applied in the order in which they were made.
Z3  A claim whose coroutine was cancelled is released.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import journal._open as _open
from journal.core.events import Event
from journal.engine.claiming import index, is_indexed
from journal.engine.deferred import deferred
from journal.engine.feed import Feed
from journal.engine.following import Following
from journal.engine.journal import Journal
from journal.engine.lease import Lease
from journal.engine.merged_journals import MergedJournals
from journal.engine.pipeline import Pipeline
from journal.engine.store import Store
from journal.errors import JournalError, LeaseLost, StoreClosed

P = ParamSpec("P")
R = TypeVar("R")
_END = object()


class _Call:
    """One verb on its way: applied by one thread, settled by another, answered on its loop."""

    __slots__ = ("error", "function", "future", "loop", "result", "waits")

    def __init__(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.function = function
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None
        self.waits: dict[Pipeline, int] = {}

    def apply(self) -> None:
        deferred.waits = {}
        try:
            self.result = self.function()
        except Exception as e:  # noqa: BLE001 - it belongs to the coroutine, which raises it
            self.error = e
        self.waits = deferred.waits
        deferred.waits = None

    def settle(self) -> None:
        for pipeline, offset in self.waits.items():
            try:
                pipeline.commit.wait(offset)
            except JournalError as e:
                self.error = e

    def answer(self) -> None:
        try:
            self.loop.call_soon_threadsafe(self._set)
        except RuntimeError:
            self._undo()  # the loop is closed: nobody will take the answer

    def _set(self) -> None:
        if self.future.cancelled():
            self._undo()
        elif self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)

    def _undo(self) -> None:
        """Nobody waits any more: leases go back (Z3)."""
        leases = self.result if isinstance(self.result, list) else [self.result]
        for lease in leases:
            if isinstance(lease, Lease) and self.error is None:
                threading.Thread(target=_release_quietly, args=(lease,), daemon=True).start()


def _release_quietly(lease: Lease) -> None:
    try:
        lease.release()
    except (LeaseLost, StoreClosed):
        return  # it is free already


class _Runner:
    """The two threads of an asynchronous store."""

    def __init__(self, name: str) -> None:
        self.is_closed = False
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._settling: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._apply, name=f"journal-aio-{name}", daemon=True),
            threading.Thread(target=self._settle, name=f"journal-aio-settle-{name}", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, function: Callable[[], R]) -> R:
        call = _Call(function, asyncio.get_running_loop())
        self._calls.put(call)
        if self.is_closed:
            self._refuse_rest()
        result: R = await call.future
        return result

    def close(self) -> None:
        self._calls.put(_END)

    def _refuse_rest(self) -> None:
        """The thread has ended: who came too late is refused."""
        while not self._calls.empty():
            call = self._calls.get()
            if call is not _END:
                call.error = StoreClosed("the store is closed")
                call.answer()

    def _apply(self) -> None:
        while (call := self._calls.get()) is not _END:
            call.apply()
            if call.waits and call.error is None:
                self._settling.put(call)
            else:
                call.answer()
        self.is_closed = True
        self._refuse_rest()
        self._settling.put(_END)

    def _settle(self) -> None:
        while (call := self._settling.get()) is not _END:
            batch = [call]
            while not self._settling.empty():
                more = self._settling.get()
                if more is _END:
                    self._settling.put(_END)
                    break
                batch.append(more)
            # The last one's sync covers all before it; theirs then return at once.
            for waiting in reversed(batch):
                waiting.settle()
            for waiting in batch:
                waiting.answer()


def _verb(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[_Wrapped, P], Coroutine[Any, Any, R]]:
    """A blocking verb as a coroutine of the wrapper."""

    async def call(self: _Wrapped, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._runner.run(lambda: method(self._wrapped, *args, **kwargs))

    call.__name__ = method.__name__
    call.__doc__ = method.__doc__
    return call


class _Wrapped:
    """A blocking object and the threads that run its verbs."""

    _wrapped: Any

    def __init__(self, wrapped: Any, runner: _Runner) -> None:
        self._wrapped = wrapped
        self._runner = runner


class AsyncLease(_Wrapped):
    """A lease; `async with` is done when the block ends, and released when it raises."""

    _wrapped: Lease

    done = _verb(Lease.done)
    extend = _verb(Lease.extend)
    release = _verb(Lease.release)
    bury = _verb(Lease.bury)

    def __getattr__(self, name: str) -> Any:
        """key, data, priority, process_date, deadline, token, timeouts, version, consumer"""
        return getattr(self._wrapped, name)

    async def __aenter__(self) -> AsyncLease:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.run(lambda: self._wrapped.__exit__(kind, error, trace))

    def __repr__(self) -> str:
        return f"<Async{repr(self._wrapped)[1:]}"


class AsyncFeed(_Wrapped):
    """A feed; `async for` waits on a thread of its own, `async with` closes it. See journal.engine.feed for the rest."""

    _wrapped: Feed

    ack = _verb(Feed.ack)
    fail = _verb(Feed.fail)

    def __init__(self, wrapped: Feed, runner: _Runner, name: str) -> None:
        super().__init__(wrapped, runner)
        self._own = _Runner(f"feed-{name}")
        self._coming: asyncio.Task[Any] | None = None
        """The next event; kept when who asked for it was cancelled, so that it is not lost."""

    def __getattr__(self, name: str) -> Any:
        """consumer, position, unacked, lag, is_redelivering, is_closed"""
        return getattr(self._wrapped, name)

    def __aiter__(self) -> AsyncFeed:
        return self

    async def __anext__(self) -> Event:
        if self._coming is None:
            if self._wrapped.is_closed:
                raise StopAsyncIteration
            self._coming = asyncio.ensure_future(self._own.run(lambda: next(self._wrapped, _END)))
        coming = self._coming
        try:
            event = await asyncio.shield(coming)
        finally:
            if coming.done():
                self._coming = None
        if event is _END:
            raise StopAsyncIteration
        assert isinstance(event, Event)
        return event

    async def close(self) -> None:
        """End the iteration, and write what was acknowledged. Closing twice is fine."""
        await self._runner.run(self._wrapped.close)
        self._own.close()
        if self._coming is not None:
            await asyncio.gather(self._coming, return_exceptions=True)  # it has ended, and nobody asks for it any more

    async def __aenter__(self) -> AsyncFeed:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Async{repr(self._wrapped)[1:]}"


class _AsyncFollowing(_Wrapped):
    """Feeds and their consumers."""

    _wrapped: Following

    feeds = _verb(Following.feeds)
    remove_feed = _verb(Following.remove_feed)
    mark_feed = _verb(Following.mark_feed)
    skip_feed = _verb(Following.skip_feed)

    async def feed(self, **options: Any) -> AsyncFeed:
        """See Journal.feed."""
        feed = await self._runner.run(lambda: self._wrapped.feed(**options))
        return AsyncFeed(feed, self._runner, self._wrapped.name)


class AsyncMergedJournals(_AsyncFollowing):
    """All merged journals of a store together; see journal.MergedJournals."""

    _wrapped: MergedJournals

    counts = _verb(MergedJournals.counts)
    rotate = _verb(MergedJournals.rotate)
    generations = _verb(MergedJournals.generations)
    statistics = _verb(MergedJournals.statistics)


class AsyncJournal(_AsyncFollowing):
    """A journal whose verbs are coroutines; see journal.Journal for what they do."""

    _wrapped: Journal

    put = _verb(Journal.put)
    put_many = _verb(Journal.put_many)
    create = _verb(Journal.create)
    get = _verb(Journal.get)
    count = _verb(Journal.count)
    delete = _verb(Journal.delete)
    move = _verb(Journal.move)
    buried = _verb(Journal.buried)
    retry = _verb(Journal.retry)
    discard = _verb(Journal.discard)
    generations = _verb(Journal.generations)
    rotate = _verb(Journal.rotate)
    distance = _verb(Journal.distance)
    shift = _verb(Journal.shift)
    lag = _verb(Journal.lag)
    statistics = _verb(Journal.statistics)
    wait_durable = _verb(Journal.wait_durable)
    done = _verb(Journal.done)
    extend = _verb(Journal.extend)
    release = _verb(Journal.release)
    bury = _verb(Journal.bury)

    @property
    def name(self) -> str:
        """The journal's name."""
        return self._wrapped.name

    @property
    def schema(self) -> Any:
        """All fields that the data may have."""
        return self._wrapped.schema

    @property
    def durable_cursor(self) -> Any:
        """The last change that is on disk."""
        return self._wrapped.durable_cursor

    async def claim(self, **options: Any) -> AsyncLease | None:
        """See Journal.claim."""
        await self._indexed(options)
        lease = await self._runner.run(lambda: self._wrapped.claim(**options))
        return None if lease is None else AsyncLease(lease, self._runner)

    async def claim_many(self, n: int, **options: Any) -> list[AsyncLease]:
        """See Journal.claim_many."""
        await self._indexed(options)
        leases = await self._runner.run(lambda: self._wrapped.claim_many(n, **options))
        return [AsyncLease(lease, self._runner) for lease in leases]

    async def _indexed(self, options: dict[str, Any]) -> None:
        """Making an index takes long, and would hold up the other verbs: it is done on a thread apart."""
        if options.get("buckets") is not None and not is_indexed(self._wrapped):
            await asyncio.to_thread(index, self._wrapped, options["buckets"])

    async def done_many(
        self, leases: list[AsyncLease | int], *, durability: str | None = None
    ) -> list[JournalError | None]:
        """See Journal.done_many."""
        tokens = [lease._wrapped.token if isinstance(lease, AsyncLease) else lease for lease in leases]
        return await self._runner.run(lambda: self._wrapped.done_many(tokens, durability=durability))

    async def leases(self, *, consumer: str | None = None) -> list[AsyncLease]:
        """See Journal.leases."""
        leases = await self._runner.run(lambda: self._wrapped.leases(consumer=consumer))
        return [AsyncLease(lease, self._runner) for lease in leases]

    async def scan(self, **filters: Any) -> AsyncIterator[Any]:
        """See Journal.scan."""
        entries = self._wrapped.scan(**filters)
        while (entry := await self._runner.run(lambda: next(entries, _END))) is not _END:
            yield entry

    async def work(self, **options: Any) -> AsyncIterator[AsyncLease]:
        """See Journal.work. Sleeps on a thread of its own; ends when the iterator is closed or the store is."""
        stop = threading.Event()
        runner = _Runner(f"work-{self._wrapped.name}")
        leases = self._wrapped.work(**options, stop=stop)
        try:
            while (lease := await runner.run(lambda: next(leases, _END))) is not _END:
                assert isinstance(lease, Lease)
                yield AsyncLease(lease, self._runner)
        finally:
            stop.set()
            self._wrapped.wake()
            runner.close()


class AsyncStore(_Wrapped):
    """A store whose verbs are coroutines; an asynchronous context manager."""

    _wrapped: Store

    journals = _verb(Store.journals)
    flags = _verb(Store.flags)
    lower = _verb(Store.lower)
    statistics = _verb(Store.statistics)
    checkpoint = _verb(Store.checkpoint)
    check = _verb(Store.check)
    drop = _verb(Store.drop)

    async def merged(self, **settings: Any) -> AsyncMergedJournals:
        """See Store.merged."""
        return AsyncMergedJournals(await self._runner.run(lambda: self._wrapped.merged(**settings)), self._runner)

    async def journal(self, name: str, **settings: Any) -> AsyncJournal:
        """See Store.journal."""
        return AsyncJournal(await self._runner.run(lambda: self._wrapped.journal(name, **settings)), self._runner)

    async def close(self) -> None:
        """Finish what is under way and give the store up. Closing twice is fine."""
        if self._runner.is_closed:
            return
        await self._runner.run(self._wrapped.close)
        self._runner.close()

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def open(path: str | os.PathLike[str], **options: Any) -> AsyncStore:
    """Make or open a store; takes what `journal.open` takes."""
    runner = _Runner(os.path.basename(os.fspath(path)))
    try:
        store = await runner.run(lambda: _open.open(path, **options))
    except BaseException:
        runner.close()
        raise
    return AsyncStore(store, runner)
