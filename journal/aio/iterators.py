"""
What `AsyncJournal` hands out one after the other: leases, the events of a feed, leases that are pushed.

I1  What came for a caller that was cancelled is kept for the next caller; at the end a lease is given back.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

from journal.aio.runner import Crew, Entered, Runner, Wrapped, verb
from journal.api.backend import Feed
from journal.api.lease import Lease
from journal.core.log.events import Event

_END = object()


class AsyncLease(Entered):
    """A lease; `async with` is done when the block ends, and released when it raises."""

    _wrapped: Any

    done = verb(Lease.done)
    extend = verb(Lease.extend)
    release = verb(Lease.release)
    bury = verb(Lease.bury)

    def __getattr__(self, name: str) -> Any:
        """key, data, token, version, deadline, start, priority, process_date, insertion_date, expiration, owner, …"""
        return getattr(self._wrapped, name)


class Iterated(Wrapped):
    """An iterator that is closed; `async for` waits on a thread of its own, `async with` closes it."""

    _wrapped: Any

    def __init__(self, wrapped: Any, runner: Runner | Crew, name: str) -> None:
        super().__init__(wrapped, runner)
        self._own = Runner(f"next-{name}")
        self._coming: asyncio.Task[Any] | None = None
        """The next one; kept when its caller was cancelled, so that it is not lost."""

    async def _next(self) -> Any:
        if self._coming is None:
            if self._wrapped.is_closed:
                raise StopAsyncIteration
            self._coming = asyncio.ensure_future(self._own.run(lambda: next(self._wrapped, _END)))
        coming = self._coming
        try:
            found = await asyncio.shield(coming)
        finally:
            if coming.done():
                self._coming = None
        if found is _END:
            raise StopAsyncIteration
        return found

    async def close(self) -> None:
        """End the iteration. Closing twice is fine."""
        await self._runner.run(self._wrapped.close)
        self._own.close()
        if self._coming is not None:
            found = await asyncio.gather(self._coming, return_exceptions=True)  # no caller is left for it
            await self._unwanted(found[0])

    async def _unwanted(self, found: Any) -> None:
        """Give back what came for a cancelled caller, when no later caller takes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Async{repr(self._wrapped)[1:]}"


class AsyncFeed(Iterated):
    """A feed; `close` writes what was acknowledged. See journal.engine.feed.feed for the rest."""

    ack = verb(Feed.ack)
    fail = verb(Feed.fail)

    def __getattr__(self, name: str) -> Any:
        """consumer, position, unacked, lag, is_redelivering, is_closed"""
        return getattr(self._wrapped, name)

    def __aiter__(self) -> AsyncFeed:
        return self

    async def __anext__(self) -> Event:
        event = await self._next()
        assert isinstance(event, Event)
        return event


class AsyncSubscription(Iterated):
    """Leases that a daemon pushes; see journal.net.client.subscription."""

    def __aiter__(self) -> AsyncSubscription:
        return self

    async def __anext__(self) -> AsyncLease:
        return AsyncLease(await self._next(), self._runner)

    async def _unwanted(self, found: Any) -> None:
        if isinstance(found, Lease):
            await AsyncLease(found, self._runner).release(process_date=found.process_date)
