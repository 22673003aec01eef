"""A feed of a journal that a daemon keeps: an iterator of events that are pushed, with acknowledgements, as journal.Feed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

from journal.core.log.cursor import Cursor
from journal.core.log.events import Event
from journal.core.requests.follow import FeedsRequest
from journal.core.requests.read import LagRequest
from journal.errors import ConnectionLost, JournalError, Stopping, StoreClosed, Unacknowledged
from journal.net.client.client import Client
from journal.net.client.connection.call import Call
from journal.net.client.connection.waiters import Inbox, Waiter
from journal.net.client.feed_state import End, Followed
from journal.net.wire.values import cursor_from
from journal.shield import SHIELD, shielded

_OVER = ConnectionLost, Stopping
"""The connection that has the feed is over, or will be in a moment."""
AGAIN_MS = 50
"""How often a daemon that still reads is asked for the rest of a feed that is not live."""


@shielded
class RemoteFeed:
    """An iterator of events; a context manager that closes itself. Made by `Journal.feed`."""

    def __init__(self, client: Client, followed: Followed) -> None:
        self._client = client
        self._link = client.link
        self._heart = client.heart
        self._followed = followed
        self._lock = threading.Lock()
        """Held while a thread acknowledges, fails or opens the feed."""
        self._error: JournalError | None = None
        """The error of an acknowledgement that no caller waited for."""
        self._is_at_end = False
        """A feed that is not live was sent all that was there. From then on the daemon is asked for what has come since, or comes again."""
        self._is_over = False
        """Nothing more will come."""
        self.is_closed = False
        self._inbox = Inbox()
        self._heart.begin()
        try:
            self._position, self._inbox = self._opened()
        except BaseException:
            self._heart.end()
            raise

    def _opened(self) -> tuple[Cursor, Inbox]:
        with self._lock:
            reply, inbox = self._link.open(self._followed.open(), self._client.timeout_ms)
            return self._followed.opened(reply), inbox

    # -- iterating ----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        with SHIELD:
            return self._next()

    def _next(self) -> Event:
        followed = self._followed
        while not (self.is_closed or self._is_over):
            inbox = self._inbox
            if not inbox.items:
                if not self._wait(inbox):
                    break
                continue
            taken = self._take(inbox)
            more = followed.credit()
            if more:
                self._link.credit(inbox, more)
            if type(taken) is Event:
                return taken
            if isinstance(taken, Call):
                self._post(taken, [])
            else:
                self._is_at_end = True
        raise StopIteration

    def _take(self, inbox: Inbox) -> Event | End | Call:
        try:
            return self._followed.take(inbox.items.popleft())
        except JournalError:
            self._is_over = True  # the daemon has ended it so
            raise

    def _wait(self, inbox: Inbox) -> bool:
        """There is nothing: wait for more, or open it again; False when all that is there was delivered."""
        self._raise()
        if inbox.is_over:
            if self._link.is_closed:
                return False
            self._is_at_end = False
            self._position, self._inbox = self._opened()
            return True
        if not (self._is_at_end or self._followed.must_look):
            self._link.wait_for(inbox, None)
            return True
        is_end = self._look(inbox)
        if not inbox.items and not is_end:
            self._link.wait_for(inbox, AGAIN_MS if self._is_at_end else None)
        return bool(inbox.items) or not is_end

    def _look(self, inbox: Inbox) -> bool:
        """Ask for what is there, or is not pushed; whether that was all."""
        try:
            events, is_end = self._followed.looked(self._asked(self._followed.look(), inbox))
        except _OVER:
            return False  # it is opened again
        except Unacknowledged:
            if not inbox.items:  # else it has come meanwhile
                raise
            return False
        inbox.items.extend(events)
        return is_end

    def _asked(self, call: Call, inbox: Inbox) -> Any:
        return self._link.ask_once(call, self._client.timeout_ms, inbox=inbox)

    def _state(self) -> Cursor:
        """The position, as the daemon has it."""
        return cursor_from(self._asked(self._followed.state(), self._inbox)["position"])

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    # -- acknowledging ------------------------------------------------------------------------------------------------

    def ack(self, *which: Cursor | Event | Iterable[Cursor | Event]) -> None:
        """
        Acknowledge changes: cursors or events, singly or in lists, in any order.

        Repeating it is harmless. A change that was never delivered is refused, and then none of them is taken. It does not wait for the
        daemon; what is refused there is raised by the next call.
        """
        self._followed.named("acknowledge")
        self._open()
        self._raise()
        with self._lock:
            cursors, calls = self._followed.ack(which)
            for call in calls:
                self._post(call, cursors)

    def _post(self, call: Call, cursors: list[Cursor]) -> None:
        def told(result: Any, error: JournalError | None) -> None:
            if error is None:
                self._followed.sure(cursors)
            elif not isinstance(error, _OVER):
                self._error = error

        try:
            self._link.post(call, told, self._inbox)
        except ConnectionLost:
            return  # it is said again when they come again

    def fail(self, which: Cursor | Event | Iterable[Cursor | Event] = ()) -> None:
        """
        Something could not be processed: all that was delivered and not acknowledged comes again, one at a time.

        `which` may name what failed; it must have been delivered, and not be acknowledged.
        """
        self._followed.named("acknowledge")
        self._open()
        with self._lock:
            call = self._followed.fail(which)
            waiter = _Failing(self._followed, self._inbox)
            try:
                self._link.ask_once(call, self._client.timeout_ms, waiter, self._inbox)
            except _OVER:
                return  # it is opened again, and what was not acknowledged comes again
            self._is_at_end |= waiter.has_dropped_end

    def _open(self) -> None:
        if self.is_closed:
            raise self._followed.closed()

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def consumer(self) -> str | None:
        """The consumer's name."""
        return self._followed.consumer

    @property
    def position(self) -> Cursor:
        """The highest cursor up to which all is acknowledged; without a name: that was delivered."""
        if self.consumer is None:
            return self._followed.last or self._position
        if not self.is_closed and not self._inbox.is_over:
            try:
                self._position = self._state()
            except _OVER:
                return self._position  # as far as is known
        return self._position

    @property
    def again(self) -> Cursor:
        """What comes up to here was delivered before: each one comes when the one before it is acknowledged."""
        return self._followed.again

    @property
    def unacked(self) -> int:
        """How many changes were delivered and are not acknowledged."""
        return len(self._followed.unacked)

    @property
    def lag(self) -> int:
        """How many changes are there that were not acknowledged; without a name: not delivered."""
        if self.consumer is None:
            return self._client.call(LagRequest(cursor=self.position))
        self._raise()
        return next((view.lag for view in self._client.call(FeedsRequest()) if view.name == self.consumer), 0)

    @property
    def is_redelivering(self) -> bool:
        """Whether what was delivered last had been delivered before: the next one comes when it is acknowledged."""
        return self._followed.is_again and self._followed.last in self._followed.unacked

    def __repr__(self) -> str:
        return f"<RemoteFeed of {self._client.name} consumer={self.consumer}>"

    # -- ending -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the iteration, on whatever thread it is, and have written what was acknowledged. Closing twice is fine."""
        if self.is_closed:
            return
        if self.consumer is not None and not self._inbox.is_over:
            try:
                self._position = self._state()
            except (StoreClosed, *_OVER):
                pass  # it has ended before: what the daemon does not know comes again
        self.is_closed = True
        self._heart.end()
        self._link.wake(self._inbox)
        try:
            self._asked(self._followed.close(), self._inbox)
        except (StoreClosed, *_OVER):
            pass  # it has ended with its connection
        self._link.shut(self._inbox)

    def __enter__(self) -> RemoteFeed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Failing(Waiter):
    """Waits until the daemon has registered a failure: what had come before that comes again."""

    def __init__(self, followed: Followed, inbox: Inbox) -> None:
        super().__init__(None)
        self._followed = followed
        self._inbox = inbox
        self.has_dropped_end = False
        """Whether the end of a feed that is not live was among what had come."""

    def end(self, result: Any = None, error: JournalError | None = None) -> None:
        """The reply has come: under the lock of the link, before anything that came later."""
        if error is None and not self.is_done:
            self.has_dropped_end = None in self._inbox.items
            self._followed.failed(result, len(self._inbox.items))
            self._inbox.items.clear()
        super().end(result, error)
