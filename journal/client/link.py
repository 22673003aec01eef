"""
The blocking end of a client: one connection that the threads of a program share, made anew when it breaks.

Whoever asks sends on its own thread. Then one of those who wait reads, for all: it hands out what comes, and when its own answer is there
another one goes on reading. Nobody else's thread is in between, so a call costs two system calls.

J1  `_lock` guards everything here, and is never held while a thread waits for bytes, a connection or a date.
J2  While somebody waits there is one reader, and only the reader receives, connects, or closes a socket that it reads from.
J3  A call ends: with its answer, its timeout, or when no daemon was found for as long as the backoff says (journal.client.options).
J4  What was sent is sent again only as the session allows it (journal.net.client_state); else it fails with ConnectionLost.
"""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from _thread import allocate_lock
from typing import Any, TypeVar

from journal.client.address import Address
from journal.client.call import Call
from journal.client.options import Options
from journal.client.sockets import LOOK_S, Wire, open_socket
from journal.errors import (
    AccessDenied,
    ConnectionLost,
    ForkedStore,
    FrameError,
    JournalError,
    StorageError,
    StoreClosed,
    VersionUnsupported,
)
from journal.net.auth import NONCE_BYTES, SESSION_BYTES
from journal.net.client_state import ClientConnection, ClientSession
from journal.net.events import Answered, Ended, Event, Failed, Welcomed

R = TypeVar("R")

CONNECT_S = 10.0
_LOOK_MS = LOOK_S * 1000
_FATAL = AccessDenied, VersionUnsupported, FrameError
"""Before the welcome: trying again would come to the same."""


def now_ms() -> int:
    """Milliseconds of a clock that only runs forward."""
    return time.monotonic_ns() // 1_000_000


class Waiter:
    """Somebody who waits: for an answer, or for room to ask."""

    __slots__ = ("by", "error", "is_done", "is_reader", "lock", "result")

    def __init__(self, by: int | None) -> None:
        self.by = by
        self.is_done = False
        self.is_reader = False
        """It was told to read for all."""
        self.lock: Any = None
        """Held until there is news; only who does not read has one."""
        self.result: Any = None
        self.error: JournalError | None = None

    def end(self, result: Any = None, error: JournalError | None = None) -> None:
        """Tell it."""
        self.result, self.error, self.is_done = result, error, True
        if self.lock is not None:
            self.lock.release()


class Link:
    """A daemon, as the threads of a program reach it."""

    def __init__(self, address: Address, options: Options) -> None:
        self.address = address
        self.options = options
        self._lock = threading.Lock()
        self._session = ClientSession(os.urandom(SESSION_BYTES), limits=options.limits)
        self._connection: ClientConnection | None = None
        self._wire: Wire | None = None
        self._is_welcome = False
        self._waiting: dict[int, Waiter] = {}
        """Who waits for the answer to a request."""
        self._followers: dict[Waiter, None] = {}
        """Who waits and does not read."""
        self._rooms: list[Waiter] = []
        """Of those, who waits until it may ask."""
        self._has_reader = False
        self._trouble: StorageError | None = None
        self._closing = threading.Event()
        self._attempts = 0
        self._attempt_at = 0
        self._lost_at: int | None = None
        """Since when there is no daemon; None: there is one, or nobody has asked since."""
        self._patience_ms = options.wait_ms
        _links.add(self)

    # -- asking -------------------------------------------------------------------------------------------------------

    def call(self, call: Call[R], timeout_ms: int | None = None) -> R:
        """Ask, and wait for the answer, at most for `timeout_ms`."""
        now = now_ms()
        waiter = Waiter(None if timeout_ms is None else now + timeout_ms)
        self._lock.acquire()
        try:
            if self._trouble is not None:
                raise self._trouble
            while len(self._session.asked) >= self._session.in_flight_max:
                self._wait_for_room(waiter.by)
            number = self._ask(call, now, timeout_ms)
            self._waiting[number] = waiter
            is_reader = self._sit(waiter)
        finally:
            self._lock.release()
        try:
            self._wait(waiter, is_reader=is_reader)
        except BaseException:
            with self._lock:
                self._waiting.pop(number, None)
            raise
        if waiter.error is not None:
            raise waiter.error
        return call.read(waiter.result)

    def _ask(self, call: Call[Any], now: int, timeout_ms: int | None) -> int:
        """Send a request, or leave it for the connection to come."""
        command, journal, parameters = call.command.name, call.journal, call.parameters
        connection = self._connection
        if connection is None:
            return self._session.ask(command, journal, parameters, now, timeout_ms).request.id
        number = connection.request(command, journal, parameters, now, timeout_ms=timeout_ms)
        self._flush(now)
        return number

    def _flush(self, now: int) -> None:
        connection, wire = self._connection, self._wire
        if connection is not None and wire is not None and connection.outgoing:
            connection.sent(wire.send(connection.outgoing), now)

    def _wait_for_room(self, by: int | None) -> None:
        """Under the lock, which is given up meanwhile: wait until one request fewer is unanswered."""
        waiter = Waiter(by)
        self._rooms.append(waiter)
        is_reader = self._sit(waiter)
        self._lock.release()
        try:
            self._wait(waiter, is_reader=is_reader)
        finally:
            self._lock.acquire()
            if waiter in self._rooms:
                self._rooms.remove(waiter)
        if waiter.error is not None:
            raise waiter.error

    # -- waiting ------------------------------------------------------------------------------------------------------

    def _sit(self, waiter: Waiter) -> bool:
        """Under the lock: whether it is the one who reads (J2); else it can be told."""
        if self._has_reader:
            waiter.lock = allocate_lock()
            waiter.lock.acquire()
            self._followers[waiter] = None
            return False
        self._has_reader = True
        return True

    def _wait(self, waiter: Waiter, *, is_reader: bool) -> None:
        if not is_reader:
            self._follow(waiter)
            if waiter.is_done:
                return
        try:
            while not waiter.is_done:
                self._read(waiter)
        finally:
            with self._lock:
                self._hand_over()

    def _follow(self, waiter: Waiter) -> None:
        """Wait for an answer that somebody else reads, or until it is our turn to read."""
        try:
            while True:
                rest = -1.0 if waiter.by is None else max(0, waiter.by - now_ms() + 1) / 1000
                if waiter.lock.acquire(timeout=rest):
                    break
                with self._lock:
                    self._tick(now_ms())
        except BaseException:
            with self._lock:
                if waiter.is_reader:
                    self._hand_over()
            raise
        finally:
            with self._lock:
                self._followers.pop(waiter, None)

    def _hand_over(self) -> None:
        """Under the lock: the reader goes; the next one reads."""
        for waiter in self._followers:
            if not waiter.is_done and not waiter.is_reader:
                waiter.is_reader = True
                waiter.lock.release()
                return
        self._has_reader = False
        if self._trouble is not None:
            self._drop_wire()

    def _read(self, mine: Waiter) -> None:
        """Take part of what comes, or connect; waits a moment at most."""
        wire, connection = self._wire, self._connection
        if wire is None or connection is None:
            self._connect(mine)
            return
        is_sending = bool(connection.outgoing)
        if is_sending or (mine.by is not None and mine.by - now_ms() < _LOOK_MS):
            rest = LOOK_S if mine.by is None else min(LOOK_S, (mine.by - now_ms() + 1) / 1000)
            wire.wait(rest, is_sending=is_sending)
            with self._lock:
                self._tick(now_ms())
            if mine.is_done or is_sending:
                return
        data = wire.receive()
        with self._lock:
            if wire is not self._wire:
                return
            now = now_ms()
            if data is None:
                self._tick(now)
            else:
                self._take(connection.receive(data, now), now)

    def _tick(self, now: int) -> None:
        """Under the lock: do what time has made due."""
        connection = self._connection
        if connection is None:
            self._take(self._session.late(now), now)
            return
        while self._connection is connection and (events := connection.tick(now)):
            self._take(events, now)
        self._flush(now)

    # -- events -------------------------------------------------------------------------------------------------------

    def _take(self, events: list[Event], now: int) -> None:
        """Under the lock: hand out what has happened."""
        for event in events:
            kind = type(event)
            if kind is Answered or kind is Failed:
                self._answered(event)  # type: ignore[arg-type]
            elif isinstance(event, Welcomed):
                self._is_welcome = True
                self._attempts = 0
                self._lost_at = None
                self._patience_ms = self.options.backoff.total_ms
            elif isinstance(event, Ended):
                self._ended(event.error, now)
        self._flush(now)

    def _answered(self, event: Answered | Failed) -> None:
        waiter = self._waiting.pop(event.id, None)
        if waiter is not None:
            if isinstance(event, Answered):
                waiter.end(event.result)
            else:
                waiter.end(error=event.error)
        if self._rooms:
            self._rooms.pop(0).end()

    def _ended(self, error: JournalError | None, now: int) -> None:
        """Under the lock: the connection is over; the reader makes another one."""
        is_fatal = not self._is_welcome and isinstance(error, _FATAL)
        self._drop_wire()
        if self._lost_at is None:
            self._lost_at = now
        if is_fatal:
            assert error is not None
            self._give_up(f"the daemon at {self.address} refuses this client: {error}", now, error)
        elif not self._is_welcome:
            self._missed(error, now)
        self._is_welcome = False

    def _drop_wire(self) -> None:
        wire, self._wire, self._connection = self._wire, None, None
        if wire is not None:
            wire.close()

    # -- connecting ---------------------------------------------------------------------------------------------------

    def _connect(self, mine: Waiter) -> None:
        """Make a connection, or wait until it is time to try; by the reader alone."""
        now = now_ms()
        with self._lock:
            if self._lost_at is None:
                self._lost_at = now
            wait = self._attempt_at - now
        if wait > 0:
            rest = wait if mine.by is None else min(wait, mine.by - now + 1)
            self._closing.wait(max(0, rest) / 1000)
            with self._lock:
                self._tick(now_ms())
            return
        try:
            wire = Wire(open_socket(self.address, CONNECT_S))
        except OSError as e:
            with self._lock:
                self._missed(e, now_ms())
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
        """Under the lock: an attempt was in vain; there is another one, or all are told (J3)."""
        lost_at = now if self._lost_at is None else self._lost_at
        wait = self.options.backoff.wait_ms(self._attempts, random.random())
        self._attempts += 1
        self._attempt_at = now + wait
        if self._attempt_at - lost_at > self._patience_ms:
            self._give_up(
                f"there is no daemon at {self.address} ({error}), after {self._attempts} attempts in {now - lost_at} ms: start "
                "it (journal serve), or give connect() another address or a longer wait or backoff",
                now,
            )
        else:
            self._take(self._session.late(now), now)

    def _give_up(self, reason: str, now: int, error: JournalError | None = None) -> None:
        """Under the lock: tell all who wait; who asks later begins anew."""
        sent = {number for number, asked in self._session.asked.items() if asked.is_sent}
        for event in self._session.give_up():
            assert isinstance(event, Failed)
            if error is not None and event.id not in sent:
                event = Failed(event.id, error)
            else:
                event = Failed(event.id, ConnectionLost(f"{event.error}; {reason}"))
            self._answered(event)
        self._attempts = self._attempt_at = 0
        self._lost_at = None

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection. Who waits is told; closing twice is fine."""
        with self._lock:
            if self._trouble is not None:
                return
            self._trouble = StoreClosed(f"the connection to {self.address} was closed by this program")
            now = now_ms()
            if self._connection is not None:
                self._connection.leave(now)
                self._flush(now)
            self._give_up("this program has closed it", now)
            for waiter in self._rooms:
                waiter.end(error=self._trouble)
            self._rooms.clear()
            self._closing.set()
            if self._wire is not None:
                self._wire.interrupt()
            if not self._has_reader:
                self._drop_wire()

    def _after_fork_in_child(self) -> None:
        """Whoever held a lock is not here, and the connection is the parent's."""
        self._lock = threading.Lock()
        self._trouble = ForkedStore(
            f"the connection to {self.address} was made by process {os.getppid()}, the parent of this one ({os.getpid()}): "
            "a forked child must connect itself"
        )
        self._waiting.clear()
        self._followers.clear()
        self._rooms.clear()
        self._has_reader = False
        self._drop_wire()


_links: weakref.WeakSet[Link] = weakref.WeakSet()


def _after_fork() -> None:
    for link in list(_links):
        link._after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork)
