"""
Verbs of blocking objects as coroutines: the threads behind `journal.aio`.

Of an open store one thread makes the calls in the order in which they came, without waiting for their syncs; another waits for the syncs
of all of them together and answers (`Runner`). Over a connection a crew of threads makes them, each of which waits for its answer
(`Crew`). The invariants are those of `journal.aio`.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from journal.api.lease import Lease
from journal.engine.log.deferred_syncs import deferred
from journal.errors import ConnectionLost, JournalError, LeaseLost, StoreClosed, StoreFull, TimedOut
from journal.net.client.connection.ordering import turns
from journal.shield import SHIELD
from journal.threads import begin

if TYPE_CHECKING:
    from journal.engine.pipeline import Pipeline

P = ParamSpec("P")
R = TypeVar("R")
_END = object()
CREW_MAX = 32
"""Calls under way at a time over a connection: with more of them one sync serves hardly more."""


class _Call:
    """One verb on its way: applied by one thread, settled by another, answered on its loop."""

    __slots__ = ("error", "function", "future", "loop", "result", "undo", "waits")

    def __init__(
        self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop, undo: Callable[[Any], object] | None = None
    ) -> None:
        self.function = function
        self.undo = undo
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None
        self.waits: dict[Pipeline, int] = {}

    def apply(self, *, has_company: bool = False) -> None:
        """Make the call; `has_company`: other calls are made before the sync."""
        deferred.waits, deferred.has_company = {}, has_company
        try:
            self.result = self.function()
        except Exception as e:  # noqa: BLE001 - it belongs to the coroutine, which raises it
            self.error = e
        self.waits = deferred.waits
        deferred.waits, deferred.has_company = None, False

    def settle(self) -> None:
        for pipeline, offset in self.waits.items():
            try:
                pipeline.commit.wait(offset)
            except JournalError as e:
                self.error = e

    def answer(self) -> None:
        if self.future.cancelled():
            self._undo()  # here: a loop that ends may take a call, and never make it
            return
        try:
            self.loop.call_soon_threadsafe(self._set)
        except RuntimeError:
            self._undo()  # the loop is closed: no coroutine will take the answer

    def _set(self) -> None:
        if self.future.cancelled():
            self._undo()
        elif self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)

    async def awaited(self) -> Any:
        """The result, for the coroutine that made the call."""
        try:
            return await self.future
        except asyncio.CancelledError:
            if self.future.done() and not self.future.cancelled():
                self._undo()  # cancelled between the answer and its turn: `_set` found a coroutine that waits, and it takes nothing
            raise

    def _undo(self) -> None:
        """No coroutine waits any more: leases go back (aio Z3), what was opened is closed."""
        if self.undo is not None and self.error is None:
            _beside(self.undo, self.result)
        leases = self.result if isinstance(self.result, list) else [self.result]
        for lease in leases:
            if isinstance(lease, Lease) and self.error is None:
                _beside(_release_quietly, lease)


def _beside(function: Callable[[Any], object], given: Any) -> None:
    try:
        begin(threading.Thread(target=function, args=(given,), daemon=True))
    except StoreFull:
        function(given)  # no thread for it: here


def _release_quietly(lease: Lease) -> None:
    try:
        lease.release()
    except (LeaseLost, StoreClosed, ConnectionLost, TimedOut):
        return  # it is free already, or will be when its lease ends


class Runner:
    """The two threads of an asynchronous store."""

    def __init__(self, name: str) -> None:
        self.is_closed = False
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._settling: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._apply, name=f"journal-aio-{name}", daemon=True),
            threading.Thread(target=self._settle, name=f"journal-aio-settle-{name}", daemon=True),
        ]
        try:
            for thread in self._threads:
                begin(thread)
        except StoreFull:
            self._calls.put(_END)  # the first one may run
            raise

    async def run(self, function: Callable[[], R], undo: Callable[[R], object] | None = None) -> R:
        call = _Call(function, asyncio.get_running_loop(), undo)
        self._calls.put(call)
        if self.is_closed:
            self._refuse_rest()
        result: R = await call.awaited()
        return result

    def close(self) -> None:
        self._calls.put(_END)

    def _refuse_rest(self) -> None:
        """The thread has ended: calls that came too late are refused."""
        while not self._calls.empty():
            call = self._calls.get()
            if call is not _END:
                call.error = StoreClosed("the store is closed")
                call.answer()

    def _apply(self) -> None:
        while (call := self._calls.get()) is not _END:
            call.apply(has_company=not self._calls.empty())
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


class Crew:
    """
    The threads of a connection for asyncio, as many as there are calls under way, up to CREW_MAX.

    Calls are sent in the order in which they were made (aio Z2): the thread that takes the next one holds the turn until it has sent its
    first request.
    """

    def __init__(self, name: str) -> None:
        self.is_closed = False
        self._name = name
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._threads = 0
        self._under_way = 0
        """Calls that were made and are not finished."""

    async def run(self, function: Callable[[], R], undo: Callable[[R], object] | None = None) -> R:
        call = _Call(function, asyncio.get_running_loop(), undo)
        with SHIELD, self._lock:
            if self.is_closed:
                raise StoreClosed("the connection is closed")
            if self._under_way >= self._threads and self._threads < CREW_MAX:
                try:
                    begin(threading.Thread(target=self._work, name=f"journal-aio-{self._name}", daemon=True))
                    self._threads += 1
                except StoreFull:
                    if not self._threads:
                        raise  # else the others do it, a little later
            self._calls.put(call)
            self._under_way += 1
        result: R = await call.awaited()
        return result

    def close(self) -> None:
        with self._lock:
            self.is_closed = True
            for _ in range(self._threads):
                self._calls.put(_END)

    def _work(self) -> None:
        while True:
            self._turn.acquire()
            call = self._calls.get()
            with turns.held(self._turn):
                if call is _END:
                    return
                call.apply()
            with self._lock:
                self._under_way -= 1
            call.answer()


def verb(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Wrapped, P], Coroutine[Any, Any, R]]:
    """A blocking verb as a coroutine of the wrapper: the method of that name, of whatever is wrapped."""
    name = method.__name__

    async def call(self: Wrapped, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._runner.run(lambda: getattr(self._wrapped, name)(*args, **kwargs))

    call.__name__ = name
    call.__doc__ = method.__doc__
    return call


class Wrapped:
    """A blocking object and the threads that run its verbs."""

    _wrapped: Any

    def __init__(self, wrapped: Any, runner: Runner | Crew) -> None:
        self._wrapped = wrapped
        self._runner = runner


class Entered(Wrapped):
    """One that `async with` enters; it is left as the wrapped one is."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.run(lambda: self._wrapped.__exit__(kind, error, trace))

    def __repr__(self) -> str:
        return f"<Async{repr(self._wrapped)[1:]}"
