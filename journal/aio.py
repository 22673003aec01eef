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
import threading
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from types import TracebackType
from typing import Any

import journal._open as _open
from journal._runner import Runner as _Runner
from journal._runner import Wrapped as _Wrapped
from journal._runner import verb as _verb
from journal.aio_loads import AsyncLoadPart, AsyncLoadSession
from journal.core.cursor import Cursor
from journal.core.events import Event
from journal.core.keys import UserKey
from journal.core.views import Loaded
from journal.engine.claiming import index, is_indexed
from journal.engine.feed import Feed
from journal.engine.following import Following
from journal.engine.journal import Journal
from journal.engine.lease import Lease
from journal.engine.merged_journals import MergedJournals
from journal.engine.preparing import Part
from journal.engine.rotating import Rotating
from journal.engine.snapshot import Snapshot
from journal.engine.store import Store
from journal.errors import JournalError

_END = object()
CHANGES = 500
"""So many are read on the thread of the store at a time."""


class AsyncLease(_Wrapped):
    """A lease; `async with` is done when the block ends, and released when it raises."""

    _wrapped: Lease

    done = _verb(Lease.done)
    extend = _verb(Lease.extend)
    release = _verb(Lease.release)
    bury = _verb(Lease.bury)

    def __getattr__(self, name: str) -> Any:
        """key, data, token, version, deadline, start, priority, process_date, insertion_date, expiration, owner, …"""
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


class AsyncSnapshot(_Wrapped):
    """A snapshot; `async with` closes it. Its parts are read by blocking calls, in processes or threads of their own."""

    _wrapped: Snapshot

    parts = _verb(Snapshot.parts)
    close = _verb(Snapshot.close)

    def __getattr__(self, name: str) -> Any:
        """name, cursor, taken, size, schema, is_closed"""
        return getattr(self._wrapped, name)

    async def __aenter__(self) -> AsyncSnapshot:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Async{repr(self._wrapped)[1:]}"


class _AsyncFollowing(_Wrapped):
    """Feeds and their consumers, generations, cursors."""

    _wrapped: Following

    feeds = _verb(Following.feeds)
    remove_feed = _verb(Following.remove_feed)
    mark_feed = _verb(Following.mark_feed)
    skip_feed = _verb(Following.skip_feed)
    generations = _verb(Rotating.generations)
    rotate = _verb(Rotating.rotate)
    compact = _verb(Rotating.compact)
    distance = _verb(Rotating.distance)
    shift = _verb(Rotating.shift)
    lag = _verb(Rotating.lag)

    @property
    def oldest_cursor(self) -> Any:
        """The oldest cursor from which all changes can be read."""
        return self._wrapped.oldest_cursor

    async def changes(self, after: Cursor, until: Cursor) -> AsyncIterator[Event]:
        """See Journal.changes."""
        events = self._wrapped.changes(after, until)
        while page := await self._runner.run(lambda: tuple(islice(events, CHANGES))):
            for event in page:
                yield event

    async def feed(self, **options: Any) -> AsyncFeed:
        """See Journal.feed."""
        feed = await self._runner.run(lambda: self._wrapped.feed(**options))
        return AsyncFeed(feed, self._runner, self._wrapped.name)


class AsyncMergedJournals(_AsyncFollowing):
    """All merged journals of a store together; see journal.MergedJournals."""

    _wrapped: MergedJournals

    counts = _verb(MergedJournals.counts)
    statistics = _verb(MergedJournals.statistics)


class AsyncJournal(_AsyncFollowing):
    """A journal whose verbs are coroutines; see journal.Journal for what they do."""

    _wrapped: Journal

    put = _verb(Journal.put)
    put_many = _verb(Journal.put_many)
    create = _verb(Journal.create)
    create_many = _verb(Journal.create_many)
    get = _verb(Journal.get)
    count = _verb(Journal.count)
    delete = _verb(Journal.delete)
    delete_many = _verb(Journal.delete_many)
    move = _verb(Journal.move)
    move_many = _verb(Journal.move_many)
    buried = _verb(Journal.buried)
    retry = _verb(Journal.retry)
    discard = _verb(Journal.discard)
    statistics = _verb(Journal.statistics)
    wait_durable = _verb(Journal.wait_durable)
    done = _verb(Journal.done)
    extend = _verb(Journal.extend)
    release = _verb(Journal.release)
    bury = _verb(Journal.bury)
    now = _verb(Journal.now)
    select = _verb(Journal.select)
    entries_of = _verb(Journal.entries_of)
    count_of = _verb(Journal.count_of)
    owners = _verb(Journal.owners)
    get_many = _verb(Journal.get_many)
    forecast = _verb(Journal.forecast)
    raise_flag = _verb(Journal.raise_flag)
    measure_drift = _verb(Journal.measure_drift)
    load_abort = _verb(Journal.load_abort)

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

    async def claim_key(self, key: UserKey, **options: Any) -> AsyncLease:
        """See Journal.claim_key."""
        lease = await self._runner.run(lambda: self._wrapped.claim_key(key, **options))
        return AsyncLease(lease, self._runner)

    async def lease(self, token: int | AsyncLease) -> AsyncLease:
        """See Journal.lease."""
        number = token._wrapped.token if isinstance(token, AsyncLease) else token
        (lease,) = await self._runner.run(lambda: (self._wrapped.lease(number),))  # wrapped as in `leases`
        return AsyncLease(lease, self._runner)

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
        # No list: leases that somebody only looked at are not released when his coroutine is cancelled (Z3).
        leases = await self._runner.run(lambda: tuple(self._wrapped.leases(consumer=consumer)))
        return [AsyncLease(lease, self._runner) for lease in leases]

    async def load(self, parts: Iterable[Part], **options: Any) -> Loaded:
        """See Journal.load. It takes long, so it has a thread of its own."""
        return await asyncio.to_thread(self._wrapped.load, parts, **options)

    async def load_begin(self) -> AsyncLoadSession:
        """See Journal.load_begin."""
        return AsyncLoadSession(await self._runner.run(self._wrapped.load_begin), self._runner)

    async def load_part(self, load: str, name: str) -> AsyncLoadPart:
        """See Journal.load_part."""
        return AsyncLoadPart(await self._runner.run(lambda: self._wrapped.load_part(load, name)), self._runner)

    async def load_commit(self, load: str, parts: Iterable[str], **options: Any) -> Loaded:
        """See Journal.load_commit; on a thread of its own, as `load`."""
        return await asyncio.to_thread(self._wrapped.load_commit, load, parts, **options)

    async def scan(self, **filters: Any) -> AsyncIterator[Any]:
        """See Journal.scan."""
        entries = self._wrapped.scan(**filters)
        while (entry := await self._runner.run(lambda: next(entries, _END))) is not _END:
            yield entry

    async def snapshot(self, **options: Any) -> AsyncSnapshot:
        """See Journal.snapshot. Files are copied on a thread apart, so that other verbs are not held up."""
        taking = asyncio.ensure_future(asyncio.to_thread(self._wrapped.snapshot, **options))
        try:
            return AsyncSnapshot(await asyncio.shield(taking), self._runner)
        except asyncio.CancelledError:
            taking.add_done_callback(lambda done: None if done.exception() else done.result().close())
            raise

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
    serve = _verb(Store.serve)

    @property
    def drifts(self) -> Any:
        """How far the clocks of producers and consumers are off."""
        return self._wrapped.drifts

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
