"""
A connection that the threads of a program share: which threads wait, which one reads for all, how it reconnects.

J1  `_lock` guards everything here, and is never held while a thread waits for bytes, a connection or a date.
J2  While threads wait, one of them is the reader, and only the reader receives and connects. A socket is not closed under it: it is
    interrupted.
J3  Every wait ends: with the answer, with its timeout, or because no daemon was found for as long as the backoff says.
J4  What was sent is sent again only as the session allows it (journal.net.wire.client_connection); else it fails with ConnectionLost.
J6  Callers raise the shield: an interrupt comes where a thread waits for bytes, for a turn or for a connection, nowhere else.
J5  A request that must be undone is repeated until its outcome is known, over as many connections as that takes, and then undone: by a
    thread that ends when it is settled, or when there is no daemon for as long as the backoff says. Then the next connection goes on with
    it. A daemon that was restarted has forgotten the request.
"""

from __future__ import annotations

import os
import random
import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from time import monotonic_ns
from typing import Any

from journal.core.requests.request import RetryRule
from journal.errors import (
    AccessDenied,
    Busy,
    ConnectionLost,
    ForkedStore,
    JournalError,
    Stopping,
    StorageError,
    StoreFull,
    TimedOut,
)
from journal.net.client.connection.address import DaemonAddress
from journal.net.client.connection.call import Call, Undo
from journal.net.client.connection.discovery import daemon_of
from journal.net.client.connection.options import ConnectOptions
from journal.net.client.connection.reconnect import Comeback, is_fatal
from journal.net.client.connection.sockets import LOOK_S, Wire
from journal.net.client.connection.transport import Insecure, open_wire
from journal.net.client.connection.waiters import Inbox, Posted, Waiter
from journal.net.wire.auth import NONCE_BYTES, SESSION_BYTES
from journal.net.wire.client_connection import Asked, ClientConnection, ClientSession, ClientState
from journal.net.wire.events import Answered, Ended, Event, Failed, Pushed, Welcomed
from journal.shield import BREAKABLE, Latch, take
from journal.threads import begin

NEAR_MS = LOOK_S * 2000


def now_ms() -> int:
    """Milliseconds of a clock that only runs forward."""
    return monotonic_ns() // 1_000_000


class Shared:
    """See the module."""

    def __init__(self, address: DaemonAddress, options: ConnectOptions, store: str | None = None) -> None:
        """`store`: its path, where the address is looked up again for each connection."""
        self.address = address
        self._store = store
        self.options = options
        self.first: Call | None = None
        """What to ask first on each further connection."""
        self.on_end: list[Callable[[], None]] = []
        """Told, under the lock, that a connection has ended."""
        self.on_fork: list[Callable[[], None]] = []
        """Told in a forked child, which has nothing of this."""
        self._lock = threading.Lock()
        self._session = ClientSession(os.urandom(SESSION_BYTES), limits=options.limits)
        self._comeback = Comeback(address, options)
        self._connection: ClientConnection | None = None
        self._wire: Wire | None = None
        self._read_from: Wire | None = None
        """What the reader waits on."""
        self._is_welcome = False
        self._waiting: dict[int, Waiter | Posted] = {}
        """By request: the waiter or callback that gets the answer."""
        self._followers: dict[Waiter, None] = {}
        """Threads that wait and do not read."""
        self._rooms: list[Waiter] = []
        """Of those, the threads that wait for room to send a request."""
        self._owed: deque[Call] = deque()
        """Requests without a waiting caller, to be sent as soon as there is room."""
        self._owed_next: list[Call] = []
        """Of those, the ones that a stopping daemon refused: for its successor."""
        self._debts: set[int] = set()
        """Requests without a waiting caller whose outcome must become known (J5)."""
        self._settling: tuple[Waiter, threading.Thread] | None = None
        """The thread that settles them, and its waiter."""
        self._inboxes: dict[int, Inbox] = {}
        """By number: the inboxes of this connection's subscriptions."""
        self._has_reader = False
        self._trouble: StorageError | None = None
        self._closing = Latch()
        _all.add(self)

    # -- sending ------------------------------------------------------------------------------------------------------

    def _send(self, call: Call, told: Waiter | Posted, by: int | None, now: int) -> Asked:
        """Under the lock: send a request, or leave it for the connection to come."""
        asked = self._session.ask_formed(call.command, call.journal, call.parameters, by)
        self._waiting[asked.id] = told
        if call.undo is not None:
            asked.outlives = True
        connection = self._connection
        if connection is not None and connection.state is ClientState.READY:
            assert self._wire is not None
            connection.put_out(asked, 0 if connection.outgoing else self._wire.send(asked.data), now)
            if connection.outgoing:
                self._flush(now)
        return asked

    def _flush(self, now: int) -> None:
        connection, wire = self._connection, self._wire
        if connection is not None and wire is not None and (connection.outgoing or wire.rest):
            connection.sent(wire.send(connection.outgoing), now)

    def _pay(self, now: int) -> None:
        """Send the requests that have no waiting caller."""
        session = self._session
        while self._owed and len(session.asked) < session.in_flight_max and self._trouble is None:
            call = self._owed.popleft()
            self._debts.add(self._send(call, Posted(partial(self._paid, call)), None, now).id)

    def _paid(self, call: Call, result: Any, error: JournalError | None) -> None:
        """A request without a waiting caller is sent again when its outcome is unknown: all of these have the same effect twice."""
        if call.command.retry is not RetryRule.CONNECTION:
            if isinstance(error, Stopping):
                self._owed_next.append(call)
            elif isinstance(error, ConnectionLost):
                self._owed.append(call)

    # -- undoing ------------------------------------------------------------------------------------------------------

    def _owe_undo(self, number: int, undo: Undo) -> None:
        """Under the lock: the caller of a request has stopped waiting, and the effect of the request must be undone (J5)."""
        self._waiting[number] = Posted(partial(self._undo, undo))
        self._debts.add(number)
        if self._settling is None:
            waiter = Waiter(None)
            thread = threading.Thread(target=self._settle, args=(waiter,), name="journal-undo", daemon=True)
            try:
                self._settling = waiter, begin(thread)
            except StoreFull:
                pass  # no room for it, or the interpreter ends; the next connection goes on with it

    def _undo(self, undo: Undo | None, result: Any, error: JournalError | None) -> None:
        if error is None and undo is not None:
            self._owed.extend(undo(result))

    def _settle(self, waiter: Waiter) -> None:
        """The thread: a caller as any other, that reads for all while it waits."""
        with self._lock:
            if not waiter.is_done:
                self._sit(waiter)
        self._wait(waiter)

    def _end_settling(self) -> None:
        """Under the lock: nothing is left to be undone, or nothing can be."""
        if self._settling is not None:
            waiter, _ = self._settling
            self._settling = None
            waiter.end()

    def _wait_settled(self, seconds: float) -> None:
        """Wait for what is being undone, so long at most."""
        settling = self._settling
        if settling is not None:
            settling[1].join(seconds)

    # -- waiting ------------------------------------------------------------------------------------------------------

    def _sit(self, waiter: Waiter) -> None:
        """Under the lock: the waiter becomes the reader, or waits for the reader (J2)."""
        if self._has_reader:
            waiter.sit()
            self._followers[waiter] = None
        else:
            self._has_reader = waiter.is_reader = True

    def _wait(self, waiter: Waiter) -> None:
        """Wait until it has ended."""
        try:
            while not waiter.is_done:
                if waiter.is_reader:
                    self._read(waiter)
                else:
                    self._follow(waiter)
        finally:
            if waiter.is_reader or waiter.lock is not None:
                with self._lock:
                    self._followers.pop(waiter, None)
                    if waiter.is_reader:
                        self._hand_over(waiter)

    def _follow(self, waiter: Waiter) -> None:
        """Wait for the answer, or for our turn to read."""
        rest = None if waiter.by is None else max(0, waiter.by - now_ms() + 1) / 1000
        if not take(waiter.lock, rest):
            with self._lock:
                self._tick(now_ms(), waiter)

    def _hand_over(self, reader: Waiter) -> None:
        """Under the lock: the reader goes; the next one reads."""
        reader.is_reader = False
        for waiter in self._followers:
            if not waiter.is_done:
                del self._followers[waiter]
                waiter.lead()
                return
        self._has_reader = False
        if self._trouble is not None:
            self._drop_wire()

    def _read(self, mine: Waiter) -> None:
        """Take some of what comes, or connect; waits a moment at most. When this is over for `mine`, the next one reads."""
        wire, connection = self._wire, self._connection
        if wire is None or connection is None:
            self._connect(mine)
            return
        self._read_from = wire
        try:
            if mine.is_near or connection.outgoing or wire.rest:
                data = self._look(wire, connection, mine)
            else:
                data = wire.receive()
        except BaseException:  # an interrupt
            with self._lock:
                self._read_from = None
                if wire is not self._wire:
                    wire.close()  # another thread saw its end
            raise
        self._read_from = None
        with self._lock:
            if wire is not self._wire:
                wire.close()  # another thread saw its end
                return
            now = monotonic_ns() // 1_000_000
            said = None if data is None else wire.plain(data)
            if said is None:
                self._tick(now, mine)
            else:
                self._take(connection.receive(said, now), now)
            if mine.is_done:
                self._hand_over(mine)

    def _look(self, wire: Wire, connection: ClientConnection, mine: Waiter) -> bytes | None:
        """Wait no longer than `mine` does, and for room to send too."""
        rest = LOOK_S if mine.by is None else min(LOOK_S, (mine.by - now_ms() + 1) / 1000)
        has_bytes = wire.wait(rest, is_sending=bool(connection.outgoing or wire.rest))
        return wire.receive() if has_bytes else None

    def _tick(self, now: int, mine: Waiter) -> None:
        """Under the lock: do what time has made due."""
        connection = self._connection
        while connection is not None and (events := connection.tick(now)):
            self._take(events, now)
            connection = self._connection
        if connection is None:
            self._take(self._session.late(now), now)
        self._flush(now)
        mine.is_near = mine.by is not None and mine.by - now <= NEAR_MS
        if mine.by is not None and mine.by <= now:
            mine.end(error=TimedOut("its time is over"))  # a waiter for an answer has ended before

    # -- events -------------------------------------------------------------------------------------------------------

    def _take(self, events: list[Event], now: int) -> None:
        """Under the lock: hand out what has happened."""
        for event in events:
            if type(event) is Answered:
                self._tell(event.id, event.result, None)
            elif type(event) is Failed:
                self._failed(event)
            elif type(event) is Pushed:
                inbox = self._inboxes.get(event.subscription)
                if inbox is not None:
                    inbox.put(event.items)
            elif type(event) is Welcomed:
                self._welcomed()
            elif type(event) is Ended:
                self._ended(event.error, now)
        if self._owed:
            self._pay(now)
        if self._settling is not None and not (self._debts or self._owed or self._owed_next):
            self._end_settling()
        connection = self._connection
        if connection is not None and connection.outgoing:
            self._flush(now)

    def _tell(self, number: int, result: Any, error: JournalError | None) -> None:
        told = self._waiting.pop(number, None)
        if told is not None:
            told.end(result, error)
        if self._debts:
            self._debts.discard(number)
        if self._rooms:
            self._rooms.pop(0).end()

    def _failed(self, event: Failed) -> None:
        """A request has failed; or its time is over, and it is still to be known what it came to (J5)."""
        told = self._waiting.get(event.id)
        self._tell(event.id, None, event.error)
        if isinstance(told, Waiter) and told.undo is not None and event.id in self._session.asked:
            self._owe_undo(event.id, told.undo)

    def _welcomed(self) -> None:
        self._is_welcome = True
        self._comeback.welcome()
        if self.first is not None:
            self._owed.appendleft(self.first)
        self._owed.extend(self._owed_next)
        self._owed_next.clear()

    def _ended(self, error: JournalError | None, now: int) -> None:
        """Under the lock: the connection is over; the reader makes another one, if a thread waits."""
        was_welcome, self._is_welcome = self._is_welcome, False
        self._drop_wire()
        if was_welcome:
            self._comeback.begin(now)
        elif error is not None and is_fatal(error):
            self._comeback.forget()
            self._give_up(f"the daemon at {self.address} refuses this client: {error}", error)
        else:
            self._missed(error, now)

    def _drop_wire(self) -> None:
        wire, self._wire, self._connection = self._wire, None, None
        if wire is not None:
            if self._read_from is wire:
                wire.interrupt()  # the reader closes it
            else:
                wire.close()
            for told in list(self.on_end):
                told()
        inboxes = list(self._inboxes.values())
        self._inboxes.clear()
        for inbox in inboxes:
            inbox.end()

    # -- connecting ---------------------------------------------------------------------------------------------------

    def _connect(self, mine: Waiter) -> None:
        """Make a connection, or wait until it is time to try; by the reader alone."""
        now = now_ms()
        with self._lock:
            self._comeback.begin(now)
            wait = self._comeback.at - now
        if wait > 0:
            rest = wait if mine.by is None else min(wait, mine.by - now + 1)
            self._closing.wait(max(0, rest) / 1000)
            with self._lock:
                self._tick(now_ms(), mine)
            return
        if self._store is not None:
            self.address = self._comeback.address = daemon_of(self._store)
        try:
            with BREAKABLE:
                wire = open_wire(self.address, self.options, None if mine.by is None else mine.by - now)
        except Insecure as e:
            with self._lock:
                self._comeback.forget()
                self._give_up(str(e), AccessDenied(str(e)))
            return
        except OSError as e:
            with self._lock:
                now = now_ms()
                self._missed(e, now)
                self._tick(now, mine)
            return
        with self._lock:
            now = now_ms()
            if self._trouble is not None:
                wire.close()
                return
            self._wire = wire
            self._connection = ClientConnection(
                self._session, nonce=os.urandom(NONCE_BYTES), now=now, identity=self.options.identity,
                secret=self.options.secret,
            )  # fmt: skip
            self._flush(now)

    def _missed(self, error: BaseException | None, now: int) -> None:
        """Under the lock: an attempt failed; there is another one, or all waits end (J3)."""
        if not self._comeback.missed(error, now, random.random()):
            reason = self._comeback.reason
            self._give_up(reason, Busy(reason) if isinstance(error, Busy) else None)

    def _give_up(self, reason: str, error: JournalError | None) -> None:
        """Under the lock: end all waits. What was never sent fails with `error`, if there is one."""
        sent = {asked.id for asked in self._session.asked.values() if asked.is_sent}
        for event in self._session.give_up():
            lost = error if error is not None and event.id not in sent else ConnectionLost(f"{event.error}; {reason}")
            self._tell(event.id, None, lost)
        rooms, self._rooms = self._rooms, []
        for waiter in rooms:
            waiter.end(error=error or ConnectionLost(reason))
        for call in [call for call in self._owed if call.command.retry is RetryRule.CONNECTION]:
            self._owed.remove(call)
        self._end_settling()

    def _after_fork_in_child(self) -> None:
        """The threads that held locks do not exist in the child, and the connection belongs to the parent."""
        self._lock = threading.Lock()
        self._trouble = ForkedStore(
            f"the connection to {self.address} was made by process {os.getppid()}, the parent of this one ({os.getpid()}): "
            "a forked child must connect itself"
        )
        self._waiting.clear()
        self._followers.clear()
        self._rooms.clear()
        self._debts.clear()
        self._settling = None
        self._has_reader = False
        self._read_from = None
        self.on_end.clear()
        self._drop_wire()
        for told in self.on_fork:
            told()


def _ignore(result: Any, error: JournalError | None) -> None:
    """Discards an answer."""


_all: weakref.WeakSet[Shared] = weakref.WeakSet()


def _after_fork() -> None:
    for shared in list(_all):
        shared._after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork)
