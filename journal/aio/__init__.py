"""
The same journal for asyncio: every verb of Store, Journal and Lease as a coroutine.

    async with await journal.aio.open("work.journal") as store:
        pages = await store.journal("pages")
        await pages.put("/home", {"uri": "/home"})
        async for lease in pages.work(consumer="backend-1"):
            async with lease: ...

There is no second implementation: a verb here is the verb of the blocking class, run on a thread of the store's own.
Its sync is not waited for there: a second thread waits for the syncs of all calls together, so that many coroutines
share one, and the loop never blocks on a disk or a lock. `journal.aio.connect` gives the same over a connection to a daemon, where a
call is a question and its answer, made by a few threads.

Z1  A coroutine returns when its record is as durable as was asked, like the blocking call.
Z2  Calls of one store are applied in the order in which they were made. Over a connection that is the order of their first requests.
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

from journal.aio.iterators import AsyncFeed as AsyncFeed
from journal.aio.iterators import AsyncLease as AsyncLease
from journal.aio.iterators import AsyncSubscription as AsyncSubscription
from journal.aio.loads import AsyncLoadPart, AsyncLoadSession
from journal.aio.runner import Crew as _Crew
from journal.aio.runner import Entered as _Entered
from journal.aio.runner import Runner as _Runner
from journal.aio.runner import Wrapped as _Wrapped
from journal.aio.runner import verb as _verb
from journal.api.backend import Snapshot
from journal.api.journal import Journal
from journal.api.log import Log, MergedJournals
from journal.api.store import Store
from journal.core.clock_drift import Time
from journal.core.entry.keys import UserKey
from journal.core.log.cursor import Cursor
from journal.core.log.events import Event
from journal.core.values import Backup, Loaded, Put, PutResult
from journal.errors import JournalError
from journal.net.client.connect import connect as _connect

_END = object()
CHANGES = 500
"""So many are read on the thread of the store at a time."""


class AsyncSnapshot(_Entered):
    """A snapshot; `async with` closes it. Its parts are read by blocking calls, in processes or threads of their own."""

    _wrapped: Snapshot

    parts = _verb(Snapshot.parts)
    close = _verb(Snapshot.close)

    def __getattr__(self, name: str) -> Any:
        """name, cursor, taken, size, schema, is_closed"""
        return getattr(self._wrapped, name)


class _AsyncFollowing(_Wrapped):
    """Feeds and their consumers, generations, cursors."""

    _wrapped: Any

    feeds = _verb(Log.feeds)
    remove_feed = _verb(Log.remove_feed)
    mark_feed = _verb(Log.mark_feed)
    skip_feed = _verb(Log.skip_feed)
    generations = _verb(Log.generations)
    rotate = _verb(Log.rotate)
    compact = _verb(Log.compact)
    distance = _verb(Log.distance)
    shift = _verb(Log.shift)
    lag = _verb(Log.lag)

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
        feed = await self._runner.run(lambda: self._wrapped.feed(**options), lambda unwanted: unwanted.close())
        return AsyncFeed(feed, self._runner, self._wrapped.name)


class AsyncMergedJournals(_AsyncFollowing):
    """All merged journals of a store together; see journal.MergedJournals."""

    _wrapped: Any

    counts = _verb(MergedJournals.counts)
    statistics = _verb(MergedJournals.statistics)


class AsyncJournal(_AsyncFollowing):
    """A journal whose verbs are coroutines; see journal.Journal for what they do."""

    _wrapped: Any

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
    retry_many = _verb(Journal.retry_many)
    discard = _verb(Journal.discard)
    statistics = _verb(Journal.statistics)
    wait_durable = _verb(Journal.wait_durable)
    done = _verb(Journal.done)
    extend = _verb(Journal.extend)
    extended = _verb(Journal.extended)
    release = _verb(Journal.release)
    bury = _verb(Journal.bury)
    now = _verb(Journal.now)
    select = _verb(Journal.select)
    entries_of = _verb(Journal.entries_of)
    count_of = _verb(Journal.count_of)
    owners = _verb(Journal.owners)
    get_many = _verb(Journal.get_many)
    peek_many = _verb(Journal.peek_many)
    forecast = _verb(Journal.forecast)
    raise_flag = _verb(Journal.raise_flag)
    pause = _verb(Journal.pause)
    resume = _verb(Journal.resume)

    @property
    def name(self) -> str:
        """The journal's name."""
        name: str = self._wrapped.name
        return name

    @property
    def schema(self) -> Any:
        """All fields that the data may have; over a connection it waits for the answer."""
        return self._wrapped.schema

    @property
    def shows_all(self) -> bool:
        """Whether reading shows all that has happened; see Journal.shows_all."""
        found: bool = self._wrapped.shows_all
        return found

    @property
    def durable_cursor(self) -> Any:
        """The last change that is on disk; over a connection it waits for the answer."""
        return self._wrapped.durable_cursor

    prepare_buckets = _verb(Journal.prepare_buckets)

    async def measure_drift(self, peer: str, t0: Time, t1: Time, t2: Time, t3: Time) -> bool:
        """See Journal.measure_drift."""
        return await self._runner.run(lambda: self._wrapped.measure_drift(peer, t0, t1, t2, t3))

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
        buckets = options.get("buckets")
        if buckets is not None and not self._wrapped.has_bucket_index:
            await asyncio.to_thread(self._wrapped.prepare_buckets, buckets)

    async def subscribe(self, **options: Any) -> AsyncSubscription:
        """See Journal.subscribe: leases that are pushed, over a connection only."""
        found = await self._runner.run(lambda: self._wrapped.subscribe(**options), lambda unwanted: unwanted.close())
        return AsyncSubscription(found, self._runner, self._wrapped.name)

    async def done_many(
        self,
        leases: list[AsyncLease | int],
        *,
        next: Iterable[Put | None] | None = None,
        durability: str | None = None,
    ) -> list[PutResult | JournalError | None]:
        """See Journal.done_many."""
        tokens = [lease._wrapped.token if isinstance(lease, AsyncLease) else lease for lease in leases]
        return await self._runner.run(lambda: self._wrapped.done_many(tokens, next=next, durability=durability))

    async def leases(self, *, consumer: str | None = None) -> list[AsyncLease]:
        """See Journal.leases."""
        # No list: leases that a coroutine only lists are not released when that coroutine is cancelled (Z3).
        leases = await self._runner.run(lambda: tuple(self._wrapped.leases(consumer=consumer)))
        return [AsyncLease(lease, self._runner) for lease in leases]

    async def load(self, parts: Iterable[Any], **options: Any) -> Loaded:
        """See Journal.load. It takes long, so it has a thread of its own."""
        return await asyncio.to_thread(self._wrapped.load, parts, **options)

    async def load_begin(self) -> AsyncLoadSession:
        """See Journal.load_begin."""
        return AsyncLoadSession(await self._runner.run(self._wrapped.load_begin), self._runner)

    async def load_abort(self, load: str) -> None:
        """See Journal.load_abort."""
        await self._runner.run(lambda: self._wrapped.load_abort(load))

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
                yield AsyncLease(lease, self._runner)
        finally:
            stop.set()
            self._wrapped.wake()
            runner.close()


class AsyncStore(_Wrapped):
    """A store whose verbs are coroutines; an asynchronous context manager."""

    _wrapped: Any

    journals = _verb(Store.journals)
    flags = _verb(Store.flags)
    lower = _verb(Store.lower)
    statistics = _verb(Store.statistics)
    checkpoint = _verb(Store.checkpoint)
    check = _verb(Store.check)
    drop = _verb(Store.drop)

    async def backup(self, dest: str | os.PathLike[str], **options: Any) -> Backup:
        """See Store.backup. It takes long, so it has a thread of its own."""
        return await asyncio.to_thread(self._wrapped.backup, dest, **options)

    async def serve(self, **options: Any) -> Any:
        """See Store.serve; over a connection there is none: the daemon serves already."""
        return await self._runner.run(lambda: self._wrapped.serve(**options))

    @property
    def location(self) -> str:
        """See Store.location."""
        found: str = self._wrapped.location
        return found

    @property
    def is_remote(self) -> bool:
        """See Store.is_remote."""
        found: bool = self._wrapped.is_remote
        return found

    @property
    def drifts(self) -> Any:
        """How far the clocks of producers and consumers are off; over a connection it stands in `statistics`."""
        return self._wrapped.drifts

    async def merged(self, **settings: Any) -> AsyncMergedJournals:
        """See Store.merged."""
        return AsyncMergedJournals(await self._runner.run(lambda: self._wrapped.merged(**settings)), self._runner)

    async def existing_merged(self) -> AsyncMergedJournals:
        """See Store.existing_merged."""
        return AsyncMergedJournals(await self._runner.run(self._wrapped.existing_merged), self._runner)

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
    from journal._open import open as opened  # not on top: a connection needs no engine

    runner = _Runner(os.path.basename(os.fspath(path)))
    try:
        store = await runner.run(lambda: opened(path, **options), lambda unwanted: unwanted.close())
    except BaseException:
        runner.close()
        raise
    return AsyncStore(store, runner)


async def connect(address: str | os.PathLike[str], **options: Any) -> AsyncStore:
    """Connect to a daemon; takes what `journal.connect` takes."""
    crew = _Crew("connection")
    try:
        store = await crew.run(lambda: _connect(address, **options), Store.close)
    except BaseException:
        crew.close()
        raise
    return AsyncStore(store, crew)
