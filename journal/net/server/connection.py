"""
One connection of the daemon: a socket, and the protocol's state of it.

N1  Nothing blocks: what the socket does not take waits in the connection, which then reads no more (server_connection D2). Requests that
    came in the same read, before that was known, are made when there is room for their answers.
N2  A peer has one timer, which is looked at again when it fires: an event costs no timer of its own.
N3  An unexpected error ends this connection, and is logged: a socket that stayed ready because of it would starve the other connections.
N4  After `close` nothing of the peer is called any more. Answers that come later go to the connection, which knows its successor.
"""

from __future__ import annotations

import logging
import ssl
from collections import deque
from socket import socket
from time import monotonic_ns
from typing import TYPE_CHECKING

from journal.core.quoting import told
from journal.net.server.runtime.event_loop import READ, WRITE, Timer
from journal.net.wire.events import Credited, Ended, Event, Opened, Requested, Superseded
from journal.net.wire.limits import Limits
from journal.net.wire.server_connection import ServerConnection

if TYPE_CHECKING:
    from journal.net.server.dispatcher import Hub

log = logging.getLogger("journal.daemon")

_WOULD_BLOCK = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_UNARMED = 1 << 62


def steady_ms() -> int:
    """Milliseconds of the clock that connections live by."""
    return monotonic_ns() // 1_000_000


def shortest_ms(limits: Limits) -> int:
    """No event sets a deadline that is nearer than this (N2)."""
    return min(limits.hello_ms, limits.frame_ms, limits.idle_ms // 3, limits.send_ms, limits.stop_ms)


class Peer:
    """See the module. On the daemon's thread."""

    __slots__ = (
        "_armed_at", "_hub", "_is_handshaking", "_is_tls", "_mask", "_shortest_ms", "_sock", "_timer", "connection", "host",
        "is_closed", "is_slow", "journal", "name", "waiting",
    )  # fmt: skip

    def __init__(self, hub: Hub, sock: socket, connection: ServerConnection, *, host: str, name: str) -> None:
        self.connection = connection
        self.host = host
        """Where its datagrams may go."""
        self.name = name
        """For the log."""
        self.journal = ""
        """The one that it has named last."""
        self.waiting: deque[Requested] = deque()
        """Requests that came behind one that takes long, or when too much was unsent (N1)."""
        self.is_slow = False
        """Whether one is being made on another thread."""
        self.is_closed = False
        self._hub = hub
        self._sock = sock
        self._is_tls = isinstance(sock, ssl.SSLSocket)
        self._is_handshaking = self._is_tls
        self._mask = READ
        self._shortest_ms = shortest_ms(connection.limits)
        self._armed_at = _UNARMED
        self._timer: Timer | None = None
        hub.loop.watch(sock, READ, self.on_ready)
        self._arm()

    # -- the socket ---------------------------------------------------------------------------------------------------

    def on_ready(self, mask: int) -> None:
        """The socket can be read or written."""
        try:
            if self._is_handshaking and not self._shake_hands():
                return
            if mask & READ or self._is_tls:
                self._read()
            else:
                self.stir(steady_ms())
        except Exception as e:  # noqa: BLE001 - it is logged, and ends the connection (N3)
            self._abort(e)

    def _shake_hands(self) -> bool:
        assert isinstance(self._sock, ssl.SSLSocket)
        try:
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            self._wait_for(READ)
            return False
        except ssl.SSLWantWriteError:
            self._wait_for(WRITE)
            return False
        except OSError as e:
            log.info("tls_refused peer=%s error=%s", self.name, told(e))
            self._is_handshaking = False
            self._hear(b"", steady_ms())
            return False
        self._is_handshaking = False
        return True

    def _read(self) -> None:
        """Take what has come. TLS may hold a part in the library, where poll does not show it: read until there is none."""
        now = monotonic_ns() // 1_000_000
        connection = self.connection
        while not self.is_closed and connection.wants_bytes:
            try:
                size = self._sock.recv_into(self._hub.buffer)
                data = bytes(self._hub.view[:size])
            except _WOULD_BLOCK:
                break
            except OSError:
                data = b""
            self._hear(data, now)
            if not self._is_tls or not data:
                return
        self.stir(now)

    def _hear(self, data: bytes, now: int) -> None:
        for event in self.connection.receive(data, now):
            self._take(event, now)
        self.stir(now)

    def stir(self, now: int) -> None:
        """Take what could not be taken before, and send what there is to send."""
        try:
            self._stir(now)
        except Exception as e:  # noqa: BLE001 - it is logged, and ends the connection (N3)
            self._abort(e)

    def _stir(self, now: int) -> None:
        connection = self.connection
        while True:
            while connection.is_stirred:
                for event in connection.more(now):
                    self._take(event, now)
            if self.waiting:
                self._work_off(now)
            if self.is_closed:
                return
            if not connection.outgoing or self._is_handshaking or not self._send(now):
                break
        if connection.is_ended and not connection.outgoing:
            self.close()
            return
        mask = (READ if connection.wants_bytes else 0) | (WRITE if connection.outgoing else 0)
        if mask != self._mask:
            self._wait_for(mask)
        if self._armed_at > now + self._shortest_ms:
            self._arm()

    def _send(self, now: int) -> bool:
        """Send what the socket takes; whether there is room again for what could not be taken or made before."""
        connection = self.connection
        was_full = connection.is_full
        try:
            connection.sent(self._sock.send(connection.outgoing), now)
            if was_full and not connection.is_full:
                self._hub.drained(self)
        except _WOULD_BLOCK:
            return False
        except OSError:
            connection.outgoing.clear()  # the peer is gone: it cannot be sent
            for event in connection.receive(b"", now):
                self._take(event, now)
        return connection.is_stirred or self._can_work_off

    def _wait_for(self, mask: int) -> None:
        if mask == self._mask:
            return
        loop = self._hub.loop
        if not self._mask:
            loop.watch(self._sock, mask, self.on_ready)
        elif mask:
            loop.rewatch(self._sock, mask)
        else:
            loop.forget(self._sock)  # nothing is wanted of it until something is answered
        self._mask = mask

    def _take(self, event: Event, now: int) -> None:
        if type(event) is Requested:
            if self.is_slow or self.waiting or self.connection.is_full:
                self.waiting.append(event)
                self.connection.is_held = True
            else:
                self._hub.serve(self, event, now)
        elif type(event) is Credited:
            self._hub.credited(self, event.subscription)
        elif type(event) is Ended:
            self._hub.ended(self, event.error)
        elif type(event) is Opened:
            self._hub.opened(self, event.grant)
            self._disarm()  # the handshake is over; it is armed anew when the welcome is sent
        elif type(event) is Superseded:
            self._hub.superseded(event.connection, now)

    def go_on(self, now: int) -> None:
        """What took long is answered: make what came behind it."""
        self.is_slow = False
        self._work_off(now)
        self.stir(now)

    def _work_off(self, now: int) -> None:
        """Make what waits, as far as there is room for the answers; answers that cannot be sent any more go to the session."""
        while self._can_work_off:
            self._hub.serve(self, self.waiting.popleft(), now)
        self.connection.is_held = bool(self.waiting)

    @property
    def _can_work_off(self) -> bool:
        connection = self.connection
        return (
            bool(self.waiting)
            and not self.is_slow
            and (connection.is_ended or not connection.is_full or connection.is_next(self.waiting[0].id))
        )

    # -- time ---------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        deadline = self.connection.deadline
        if deadline is None or self._armed_at <= deadline:
            return
        self._disarm()
        self._armed_at = deadline
        self._timer = self._hub.loop.at(deadline / 1000, self._on_time)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._armed_at = _UNARMED

    def _on_time(self) -> None:
        self._disarm()
        now = steady_ms()
        try:
            for event in self.connection.tick(now):
                self._take(event, now)
            self._stir(now)
            if not self.is_closed:
                self._arm()
        except Exception as e:  # noqa: BLE001 - it is logged, and ends the connection (N3)
            self._abort(e)

    # -- the end ------------------------------------------------------------------------------------------------------

    def stop(self, now: int) -> None:
        """The daemon stops: nothing new is taken."""
        for event in self.connection.stop(now):
            self._take(event, now)
        self.stir(now)

    def _abort(self, error: BaseException) -> None:
        """An unexpected error (N3)."""
        log.error("connection_failed peer=%s", self.name, exc_info=error)
        if self.is_closed:
            return
        try:
            self.connection.outgoing.clear()
            for event in self.connection.receive(b"", steady_ms()):
                self._take(event, 0)
        except Exception:
            log.exception("connection_failed peer=%s", self.name)
        self.close()

    def abandon_after_fork(self) -> None:
        """In a forked child: our copy of the socket goes; nothing is said to the other side."""
        self._sock.detach() if self._is_tls else self._sock.close()

    def close(self) -> None:
        """Close the socket (N4)."""
        if self.is_closed:
            return
        self.is_closed = True
        self._disarm()
        if self._mask:
            self._hub.loop.forget(self._sock)
        self._sock.close()
        self._hub.closed(self)
