"""
Leases that a daemon pushes as entries fall due (SUBSCRIBE), as an iterator.

As many as there is credit for come ahead and wait here. Those that the consumer had before come first: when the connection breaks the
subscription is made again, and what was not answered comes once more.

U1  A lease that was handed out and is not ended is not handed out again.
U2  What has come and was not handed out is given back at the end, to its place.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from journal.api.lease import Holder, Lease
from journal.core.requests.consume import ReleaseRequest, SubscribeRequest, UnsubscribeRequest
from journal.errors import ConnectionLost, JournalError, LeaseLost, Stopping, StoreClosed, TimedOut
from journal.net.client.client import Client
from journal.net.client.connection.call import Call, call_of
from journal.net.client.connection.waiters import Inbox
from journal.net.wire.codecs import subscribed
from journal.net.wire.values import LentRow, error_from, lease_from
from journal.shield import SHIELD, shielded

_OVER = ConnectionLost, Stopping, StoreClosed
"""The connection that has the subscription is over, or will be in a moment."""
_HELD_MIN = 64


@shielded
class RemoteSubscription:
    """An iterator of leases; a context manager that closes itself. Made by `Journal.subscribe`; for one thread, closing on any."""

    def __init__(self, client: Client, holder: Holder, how: dict[str, Any], credit: int) -> None:
        """`how`: the parameters of its claims."""
        self.is_closed = False
        self._client = client
        self._holder = holder
        self._link = client.link
        self._heart = client.heart
        self._call = Call(SubscribeRequest.command, client.name, {**how, "credit": credit}, self._undo)
        self._credit = credit
        self._used = 0
        self._held: dict[int, Lease] = {}
        """Handed out, and not ended as far as is known (U1)."""
        self._closing = threading.Lock()
        self._heart.begin()
        try:
            self._open()
        except BaseException:
            self._heart.end()
            raise

    def _open(self) -> None:
        answer, self._inbox = self._link.open(self._call, self._client.timeout_ms)
        self._number = subscribed(answer)

    def _undo(self, answer: Any) -> list[Call]:
        return [self._unsubscribe(subscribed(answer))]

    def _unsubscribe(self, number: int) -> Call:
        return call_of(UnsubscribeRequest(subscription=number), self._client.name)

    def __iter__(self) -> Iterator[Lease]:
        return self

    def __next__(self) -> Lease:
        with SHIELD:
            return self._next()

    def _next(self) -> Lease:
        while not self.is_closed:
            inbox = self._inbox
            if not inbox.items:
                if not self._wait(inbox):
                    break
                continue
            lease = self._take(inbox)
            if lease is not None:
                return lease
        raise StopIteration

    def _wait(self, inbox: Inbox) -> bool:
        """There is nothing: wait for more, or subscribe again; False when the connection was closed by this program."""
        try:
            if inbox.is_over:
                self._open()
                self._used = 0
            else:
                self._link.wait_for(inbox, None)
        except StoreClosed:
            return False
        return True

    def _take(self, inbox: Inbox) -> Lease | None:
        item = inbox.items.popleft()
        if type(item) is dict:
            self.is_closed = True  # the daemon has ended it so
            self._heart.end()
            raise error_from(item)
        row = lease_from(item)
        self._used += 1
        if self._used * 2 >= self._credit:
            used, self._used = self._used, 0
            self._link.credit(inbox, used)
        held = self._held.get(row.token)
        if held is not None and not held.is_ended:
            return None  # U1
        lease = self._held[row.token] = Lease(self._holder, row, row.data, row.insertion_date)
        if len(self._held) > 2 * self._credit + _HELD_MIN:
            now = self._client.ear.time.now()
            self._held = {
                token: held for token, held in self._held.items() if not held.is_ended and held.deadline > now
            }
        return lease

    def close(self) -> None:
        """End the iteration, on whatever thread it is, and give back what was not handed out. Closing twice is fine."""
        with self._closing:
            if self.is_closed:
                return
            self.is_closed = True
        self._heart.end()
        self._link.wake(self._inbox)
        try:
            self._link.ask_once(self._unsubscribe(self._number), self._client.timeout_ms, inbox=self._inbox)
        except _OVER:
            pass  # it has ended with its connection
        self._link.shut(self._inbox)
        while self._inbox.items:
            item = self._inbox.items.popleft()
            if type(item) is not dict:
                self._give_back(lease_from(item))

    def _give_back(self, row: LentRow) -> None:
        """U2."""
        if row.token in self._held:
            return
        try:
            self._client.call(ReleaseRequest(token=row.token, process_date=row.process_date))
        except (LeaseLost, TimedOut, *_OVER):
            return  # it is free already, or will be when its lease ends

    def __enter__(self) -> RemoteSubscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except JournalError:
            if error is None:
                raise

    def __repr__(self) -> str:
        return f"<RemoteSubscription of {self._client.name} credit={self._credit}>"
