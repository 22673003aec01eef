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
from typing import TYPE_CHECKING

from journal.errors import ConnectionLost, JournalError, LeaseLost, Stopping, StoreClosed, TimedOut
from journal.net.client.calls import claims
from journal.net.client.calls.call import Call
from journal.net.client.connection.waiters import Inbox
from journal.net.client.lease import RemoteLease
from journal.net.wire.values import LeaseRow, error_from, lease_from
from journal.shield import SHIELD, shielded

if TYPE_CHECKING:
    from journal.net.client.journal import RemoteJournal

_OVER = ConnectionLost, Stopping, StoreClosed
"""The connection that has the subscription is over, or will be in a moment."""
_HELD_MIN = 64


@shielded
class RemoteSubscription:
    """An iterator of leases; a context manager that closes itself. Made by `RemoteJournal.subscribe`; for one thread, closing on any."""

    def __init__(self, journal: RemoteJournal, call: Call[int], credit: int) -> None:
        self.is_closed = False
        self._journal = journal
        self._link = journal._link
        self._heart = journal._heart
        self._call = call
        self._credit = credit
        self._used = 0
        self._held: dict[int, RemoteLease] = {}
        """Handed out, and not ended as far as is known (U1)."""
        self._closing = threading.Lock()
        self._heart.begin()
        try:
            self._number, self._inbox = self._link.open(call, journal._timeout_ms)
        except BaseException:
            self._heart.end()
            raise

    def __iter__(self) -> Iterator[RemoteLease]:
        return self

    def __next__(self) -> RemoteLease:
        with SHIELD:
            return self._next()

    def _next(self) -> RemoteLease:
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
                self._number, self._inbox = self._link.open(self._call, self._journal._timeout_ms)
                self._used = 0
            else:
                self._link.wait_for(inbox, None)
        except StoreClosed:
            return False
        return True

    def _take(self, inbox: Inbox) -> RemoteLease | None:
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
        if held is not None and not held._is_ended:
            return None  # U1
        lease = self._held[row.token] = RemoteLease(self._journal, row)
        if len(self._held) > 2 * self._credit + _HELD_MIN:
            now = self._journal._ear.time.now()
            self._held = {
                token: held for token, held in self._held.items() if not held._is_ended and held.deadline > now
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
            self._link.ask_once(
                claims.unsubscribe(self._journal.name, self._number), self._journal._timeout_ms, inbox=self._inbox
            )
        except _OVER:
            pass  # it has ended with its connection
        self._link.shut(self._inbox)
        while self._inbox.items:
            item = self._inbox.items.popleft()
            if type(item) is not dict:
                self._give_back(lease_from(item))

    def _give_back(self, row: LeaseRow) -> None:
        """U2."""
        if row.token in self._held:
            return
        try:
            self._journal.release(row.token, process_date=row.process_date)
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
        return f"<RemoteSubscription of {self._journal.name} credit={self._credit}>"
