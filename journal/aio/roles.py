"""
Producers and consumers for asyncio: the same roles, awaited.

    mails = AsyncConsumer(pages, name="mail-1", prefetch=20)
    await mails.run(send)                     # up to 20 coroutines at a time; or
    async for lease in mails: ...

As in `journal.aio` there is no second implementation. A consumer waits for work on a thread of its own, and its leases are looked
after by the renewal thread of the process, which a busy loop cannot block either.

X1  A lease that was taken for a caller that was cancelled is kept for the next caller, and given back at the end.
X2  A handler that is cancelled has not failed: its entry goes back to its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Any

from journal.aio import AsyncJournal
from journal.aio.iterators import AsyncLease
from journal.aio.runner import Runner, Wrapped, verb
from journal.api.lease import Lease
from journal.core.times import DurationLike
from journal.core.values import Put, PutResult
from journal.errors import Invalid, JournalError, LeaseLost, Refused
from journal.roles.consumer import Consumer
from journal.roles.handler import check_handler, fail, finish, give_back, note_failure
from journal.roles.producer import Producer

Handler = Callable[[AsyncLease], Awaitable[object]]


class AsyncProducer(Wrapped):
    """A producer whose verbs are coroutines; see journal.Producer."""

    _wrapped: Producer

    publish = verb(Producer.publish)
    publish_many = verb(Producer.publish_many)
    put = verb(Producer.put)
    move = verb(Producer.move)
    move_many = verb(Producer.move_many)
    delete = verb(Producer.delete)
    delete_many = verb(Producer.delete_many)
    get = verb(Producer.get)
    list = verb(Producer.list)
    count = verb(Producer.count)
    report_clock = verb(Producer.report_clock)

    def __init__(self, journal: AsyncJournal, *, group: str) -> None:
        super().__init__(Producer(journal._wrapped, group=group), journal._runner)
        self.group = group

    def new_key(self) -> str:
        """See Producer.new_key."""
        return self._wrapped.new_key()


class AsyncConsumer:
    """A consumer; takes what journal.Consumer takes. `async for` hands out leases, `async with` closes it."""

    def __init__(self, journal: AsyncJournal, **options: Any) -> None:
        self._wrapped = Consumer(journal._wrapped, **options)
        self._runner = journal._runner
        self._own = Runner(f"consumer-{self._wrapped.name}")
        self._coming: asyncio.Task[Lease | None] | None = None
        """The next lease; kept when its caller was cancelled (X1)."""
        self._was_subscribed = False

    def __getattr__(self, name: str) -> Any:
        """name, buckets, is_subscribed, held, holds, statistics: they do not wait."""
        return getattr(self._wrapped, name)

    async def subscribe(self) -> None:
        """See Consumer.subscribe; for a handler there is `run`."""
        await self._runner.run(self._wrapped.subscribe)
        self._was_subscribed = True

    async def unsubscribe(self) -> None:
        """See Consumer.unsubscribe."""
        await self._runner.run(self._wrapped.unsubscribe)

    async def take(self) -> AsyncLease | None:
        """The next lease; None when the subscription has ended."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(self._own.run(self._wrapped.take))
        coming = self._coming
        lease = await asyncio.shield(coming)
        if self._coming is coming:
            self._coming = None
        return None if lease is None else AsyncLease(lease, self._runner)

    async def take_nowait(self) -> AsyncLease | None:
        """The next lease, or None when nothing is due."""
        lease = await self._runner.run(self._wrapped.take_nowait)
        return None if lease is None else AsyncLease(lease, self._runner)

    async def done_many(
        self,
        leases: list[AsyncLease],
        *,
        next: Iterable[Put | None] | None = None,
        durability: str | None = None,
    ) -> list[PutResult | JournalError | None]:
        """See Consumer.done_many."""
        own = [lease._wrapped for lease in leases]
        return await self._runner.run(lambda: self._wrapped.done_many(own, next=next, durability=durability))

    async def report_clock(self, t1: Any, t2: Any = None, **times: Any) -> bool:
        """See Consumer.report_clock."""
        return await self._runner.run(lambda: self._wrapped.report_clock(t1, t2, **times))

    def __aiter__(self) -> AsyncConsumer:
        return self

    async def __anext__(self) -> AsyncLease:
        """The next lease; the first call subscribes."""
        if not (self._was_subscribed or self._wrapped.is_subscribed):
            await self.subscribe()
        lease = await self.take()
        if lease is None:
            raise StopAsyncIteration
        return lease

    async def run(self, handler: Handler) -> None:
        """Let a coroutine work on each lease, as many at a time as `prefetch` says, until the subscription ends."""
        check_handler(handler)
        await self.subscribe()
        async with asyncio.TaskGroup() as tasks:
            while (lease := await self.take()) is not None:
                tasks.create_task(self._handle(lease, handler))

    async def _handle(self, lease: AsyncLease, handler: Handler) -> None:
        """What journal.roles.handler does, awaited."""
        own, consumer = lease._wrapped, self._wrapped
        try:
            result = await handler(lease)
        except Exception as e:  # noqa: BLE001 - the work has failed, not the consumer
            note_failure(consumer, own, e)
            await self._answer(own, partial(fail, consumer, own, e))
        except BaseException:
            await asyncio.shield(self._answer(own, partial(give_back, own)))  # X2
            raise
        else:
            if consumer.auto_done:
                try:
                    await self._answer(own, finish(own, result))
                except (Invalid, Refused) as e:
                    note_failure(consumer, own, e)
                    await self._answer(own, partial(fail, consumer, own, e))

    async def _answer(self, lease: Lease, answer: Callable[[], object]) -> None:
        if lease.is_ended or not self._wrapped.holds(lease):
            return
        try:
            await self._runner.run(answer)
        except LeaseLost:
            return

    async def close(self, *, finish: bool = True, wait: DurationLike = "10s") -> None:
        """See Consumer.close. Handlers that run as tasks of this loop go on meanwhile."""
        if self._wrapped.is_subscribed:
            await self.unsubscribe()
        self._own.close()
        if self._coming is not None:
            (lease,) = await asyncio.gather(self._coming, return_exceptions=True)
            self._coming = None
            if lease is not None and not isinstance(lease, BaseException):
                await self._answer(lease, partial(give_back, lease))  # X1
        await asyncio.to_thread(self._wrapped.close, finish=finish, wait=wait)

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(finish=error is None)

    def __repr__(self) -> str:
        return f"<Async{repr(self._wrapped)[1:]}"
