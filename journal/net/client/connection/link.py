"""
The blocking end of a client: its verbs send their requests through it.

A caller sends on its own thread. Then one of the waiting threads reads for all (journal.net.client.connection.connection): it hands out
what comes, and when its own answer is there another thread goes on reading. No other thread is in between: a call costs two system calls.

L1  A call ends: with its answer, its timeout, or ConnectionLost.
L2  A request whose caller stopped waiting (a timeout, an interrupt) is undone: a claim is given back. If need be on another connection,
    where the request is repeated (journal.net.client.connection.connection J5).
L3  A request that a stopping daemon refused is sent to its successor: it was not done.
L4  A request about a subscription goes to the connection that has it, or to none: on another one its number names another subscription.
L5  A subscription ends with its connection, so that making it once more is harmless.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns
from typing import Any, TypeVar

from journal.core.requests.control import PingRequest
from journal.errors import ConnectionLost, JournalError, Stopping, StoreClosed, TimedOut
from journal.net.client.connection.call import Call, call_of
from journal.net.client.connection.connection import NEAR_MS, Shared, _ignore, now_ms
from journal.net.client.connection.ordering import turns
from journal.net.client.connection.sockets import LOOPBACK
from journal.net.client.connection.waiters import Inbox, OpeningWaiter, Posted, Waiter
from journal.net.wire.client_connection import Asked
from journal.shield import shielded

R = TypeVar("R")
STOPPING_S = 0.05
"""How often a daemon that takes nothing new is asked again."""
SETTLE_S = 1.0
"""How long closing waits for what is being undone. A daemon answers in milliseconds; one that hangs delays closing no longer than this."""


@shielded
class Link(Shared):
    """A daemon, as the threads of a program reach it."""

    def ask(self, call: Call, timeout_ms: int | None) -> Any:
        """The result of a call, as it came."""
        try:
            return self.ask_once(call, timeout_ms)
        except Stopping:
            return self._again(lambda rest: self.ask_once(call, rest), timeout_ms)

    def _again(self, attempt: Callable[[int | None], R], timeout_ms: int | None) -> R:
        """The daemon takes nothing new, and has not done this: ask again until it is gone, and then its successor (L3)."""
        began = now_ms()
        while True:
            if self._closing.wait(STOPPING_S):
                raise StoreClosed(f"the connection to {self.address} was closed by this program")
            waited = now_ms() - began
            try:
                return attempt(None if timeout_ms is None else max(1, timeout_ms - waited))
            except Stopping:
                if waited > self.options.backoff.total_ms or (timeout_ms is not None and waited >= timeout_ms):
                    raise

    def ask_once(
        self, call: Call, timeout_ms: int | None, waiter: Waiter | None = None, inbox: Inbox | None = None
    ) -> Any:
        """The same, of a daemon that may be stopping. With an inbox: only on the connection that this is of (L4)."""
        now = monotonic_ns() // 1_000_000
        by = None if timeout_ms is None else now + timeout_ms
        if waiter is None:
            waiter = Waiter(by)
        if timeout_ms is not None and timeout_ms <= NEAR_MS:
            waiter.is_near = True
        if call.undo is not None:
            waiter.undo = call.undo
        with self._lock:
            if self._trouble is not None:
                raise self._trouble
            if len(self._session.asked) >= self._session.in_flight_max:
                self._wait_for_room(by)
            if inbox is not None:
                self._check_open(inbox)
            asked = self._send(call, waiter, by, now)
            if turns.turn is not None:
                turns.over()
            if self._has_reader:
                waiter.sit()
                self._followers[waiter] = None
            else:
                self._has_reader = waiter.is_reader = True
        try:
            self._wait(waiter)
        except BaseException:
            with self._lock:
                self._abandon(asked, waiter)
            raise
        if waiter.error is not None:
            raise waiter.error
        return waiter.result

    def _check_open(self, inbox: Inbox) -> None:
        """Under the lock (L4)."""
        if self._inboxes.get(inbox.number) is not inbox:
            raise ConnectionLost("the subscription has ended with its connection")

    def post(self, call: Call, then: Callable[[Any, JournalError | None], None], inbox: Inbox | None = None) -> None:
        """Send a request, and do not wait for the answer. `then` is called with it, under the lock: it must send no request."""
        with self._lock:
            if self._trouble is not None:
                raise self._trouble
            if len(self._session.asked) >= self._session.in_flight_max:
                self._wait_for_room(None)
            if inbox is not None:
                self._check_open(inbox)
            self._send(call, Posted(then), None, now_ms())

    def _wait_for_room(self, by: int | None) -> None:
        """Under the lock, which is given up meanwhile: wait until one request fewer is unanswered."""
        session = self._session
        while len(session.asked) >= session.in_flight_max:
            waiter = Waiter(by)
            waiter.is_near = by is not None
            self._rooms.append(waiter)
            self._sit(waiter)
            self._lock.release()
            try:
                self._wait(waiter)
            finally:
                self._lock.acquire()
                if waiter in self._rooms:
                    self._rooms.remove(waiter)
            if self._trouble is not None:
                raise self._trouble
            if waiter.error is not None:
                raise waiter.error

    def _abandon(self, asked: Asked, waiter: Waiter) -> None:
        """Under the lock: the caller has stopped waiting for the answer (L2)."""
        if waiter.is_done:
            self._undo(waiter.undo, waiter.result, waiter.error)
            self._pay(now_ms())
        elif asked.id in self._waiting:
            if not asked.is_sent:
                self._session.forget(asked)
                self._tell(asked.id, None, None)
            elif waiter.undo is None:
                self._waiting[asked.id] = Posted(_ignore)
            else:
                asked.abandon()
                self._owe_undo(asked.id, waiter.undo)

    # -- what is pushed -----------------------------------------------------------------------------------------------

    def open(self, call: Call, timeout_ms: int | None) -> tuple[Any, Inbox]:
        """Ask for a subscription: its answer, and where its items will be. One that broke while it was made is made anew (L5)."""
        broken_at: int | None = None
        while True:
            try:
                return self._open(call, timeout_ms)
            except Stopping:
                return self._again(lambda rest: self._open(call, rest), timeout_ms)
            except ConnectionLost:
                broken_at = now_ms() if broken_at is None else broken_at
                if now_ms() - broken_at > self.options.backoff.total_ms:
                    raise
            self.ask(call_of(PingRequest()), timeout_ms)  # fails when there is no daemon

    def _open(self, call: Call, timeout_ms: int | None) -> tuple[Any, Inbox]:
        opening = OpeningWaiter(None if timeout_ms is None else now_ms() + timeout_ms, self._inboxes)
        return self.ask_once(call, timeout_ms, opening), opening.inbox

    def shut(self, inbox: Inbox) -> None:
        """Want nothing more of a subscription; what was not taken is forgotten."""
        with self._lock:
            if self._inboxes.get(inbox.number) is inbox:
                del self._inboxes[inbox.number]
            inbox.end()

    def credit(self, inbox: Inbox, number: int) -> None:
        """Have so many more items pushed; of a subscription that is over there are none."""
        with self._lock:
            if self._connection is not None and self._inboxes.get(inbox.number) is inbox:
                now = now_ms()
                self._connection.credit(inbox.number, number, now)
                self._flush(now)

    def wait_for(self, inbox: Inbox, timeout_ms: int | None) -> None:
        """Return when an inbox has items, or is over, or was woken, or time has passed."""
        with self._lock:
            if self._trouble is not None:
                raise self._trouble
            if inbox.items or inbox.is_over:
                return
            waiter = Waiter(None if timeout_ms is None else now_ms() + timeout_ms)
            waiter.is_near = timeout_ms is not None and timeout_ms <= NEAR_MS
            inbox.waiters.append(waiter)
            self._sit(waiter)
        try:
            self._wait(waiter)
        finally:
            with self._lock:
                if waiter in inbox.waiters:
                    inbox.waiters.remove(waiter)
        if waiter.error is not None and not isinstance(waiter.error, TimedOut):
            raise waiter.error

    def wake(self, inbox: Inbox) -> None:
        """Wake the threads that wait for an inbox."""
        with self._lock:
            inbox.wake()

    # -- the end ------------------------------------------------------------------------------------------------------

    @property
    def ping_ms(self) -> int:
        """How long a connection may be silent before a PING is due."""
        connection = self._connection
        return self.options.limits.idle_ms // 3 if connection is None else connection.ping_ms

    @property
    def local_host(self) -> str:
        """The address that the daemon sees this program at; only on a connection over the network it may be another one than loopback."""
        wire = self._wire
        return LOOPBACK if wire is None else wire.local_host

    @property
    def descriptor(self) -> int | None:
        """The file descriptor of the connection, for a caller that polls for its end."""
        wire = self._wire
        number = -1 if wire is None else wire.socket.fileno()
        return None if number < 0 else number

    def check(self) -> None:
        """Raise why nothing can be asked any more."""
        if self._trouble is not None:
            raise self._trouble

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._trouble is not None

    def close(self) -> None:
        """End the connection, and all waits. What is being undone gets up to SETTLE_S (connection J5). Closing twice is fine."""
        self._wait_settled(SETTLE_S)
        with self._lock:
            if self._trouble is not None:
                return
            self._trouble = StoreClosed(f"the connection to {self.address} was closed by this program")
            now = now_ms()
            if self._connection is not None:
                self._connection.leave(now)
                self._flush(now)
            self._give_up("this program has closed it", None)
            for inbox in self._inboxes.values():
                inbox.end()
            self._closing.set()
            if self._wire is not None:
                self._wire.interrupt()
            if not self._has_reader:
                self._drop_wire()
