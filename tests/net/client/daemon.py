"""A small daemon for tests of the client: the real protocol over a Unix socket, answers made by a function."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns
from typing import Any

from journal.net.wire.auth import EVERYTHING, Grant
from journal.net.wire.events import Requested, Superseded
from journal.net.wire.handshake import Daemon
from journal.net.wire.limits import DEFAULT, Limits
from journal.net.wire.server_connection import ServerConnection
from journal.net.wire.sessions import Sessions
from journal.net.wire.tokens import Token

Answer = Callable[[Requested], Any]
LATER = object()
"""An answer that is given later, by `Served.reply`."""


class Peer:
    """One connection."""

    def __init__(self, connected: socket.socket, state: ServerConnection) -> None:
        self.socket = connected
        self.state = state


class TinyDaemon:
    """Serves until it is stopped; one thread has all connections."""

    def __init__(
        self,
        path: Path,
        answer: Answer,
        *,
        epoch: int = 1,
        grant: Grant | None = EVERYTHING,
        tokens: dict[str, Token] | None = None,
        limits: Limits = DEFAULT,
    ) -> None:
        self.path = path
        self.answer = answer
        self.grant = grant
        self.limits = limits
        self.daemon = Daemon(server="work", epoch=epoch, sessions=Sessions(), tokens=tokens or {})
        self.asked: list[Requested] = []
        self.peers: dict[int, Peer] = {}
        self.gone: list[ServerConnection] = []
        """Connections that were closed."""
        self._calls: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._wake, self._waker = socket.socketpair()
        self._is_over = False
        self._listener = socket.socket(socket.AF_UNIX)
        path.unlink(missing_ok=True)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"unix:{self.path}"

    def do(self, function: Callable[[], None]) -> None:
        """Have the daemon's thread do something, and wait until it has."""
        done = threading.Event()

        def run() -> None:
            function()
            done.set()

        with self._lock:
            self._calls.append(run)
        self._waker.send(b".")
        assert done.wait(100)

    def cut(self) -> None:
        """Cut all connections off, as a broken network would."""
        self.do(lambda: [self._close(peer) for peer in list(self.peers.values())] and None)

    def stop(self) -> None:
        if not self._is_over:
            self._is_over = True
            with contextlib.suppress(OSError):  # the thread has seen it already
                self._waker.send(b".")
            self._thread.join(100)

    def __enter__(self) -> TinyDaemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_over:
            reads = [self._listener, self._wake, *(p.socket for p in self.peers.values() if p.state.wants_bytes)]
            writes = [p.socket for p in self.peers.values() if p.state.outgoing]
            readable, writable, _ = select.select(reads, writes, [], 1.0)
            for each in readable:
                if each is self._listener:
                    self._accept()
                elif each is self._wake:
                    self._wake.recv(100)
                else:
                    peer = self.peers.get(each.fileno())
                    if peer is not None:
                        self._read(peer)
            with self._lock:
                calls, self._calls = self._calls, []
            for run in calls:
                run()
            for each in writable:
                peer = self.peers.get(each.fileno())
                if peer is not None:
                    self._flush(peer)
            for peer in list(self.peers.values()):
                self._flush(peer)
        for peer in list(self.peers.values()):
            self._close(peer)
        for each in (self._listener, self._wake, self._waker):
            each.close()
        self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        connected, _ = self._listener.accept()
        connected.setblocking(False)
        state = ServerConnection(self.daemon, nonce=os.urandom(32), now=now(), grant=self.grant, limits=self.limits)
        self.peers[connected.fileno()] = Peer(connected, state)

    def _read(self, peer: Peer) -> None:
        try:
            data = peer.socket.recv(1 << 16)
        except OSError:
            data = b""
        self.take(peer, peer.state.receive(data, now()))
        self._flush(peer)

    def take(self, peer: Peer, events: list[Any]) -> None:
        while events:
            for event in events:
                if isinstance(event, Requested):
                    self.asked.append(event)
                    self._answer(peer, event)
                elif isinstance(event, Superseded):
                    old = next((p for p in self.peers.values() if p.state is event.connection), None)
                    if old is not None:
                        self._close(old)
            events = peer.state.more(now())

    def _answer(self, peer: Peer, event: Requested) -> None:
        try:
            result = self.answer(event)
        except Exception as e:  # noqa: BLE001 - it is the client's
            peer.state.fail(event.id, e, now())
            return
        if result is not LATER:
            peer.state.reply(event.id, result, now())

    def _flush(self, peer: Peer) -> None:
        state = peer.state
        try:
            while state.outgoing:
                state.sent(peer.socket.send(state.outgoing), now())
        except BlockingIOError:
            return
        except OSError:
            self._close(peer)
            return
        if state.is_finished:
            self._close(peer)

    def _close(self, peer: Peer) -> None:
        if self.peers.pop(peer.socket.fileno(), None) is None:
            return
        peer.state.receive(b"", now())
        peer.socket.close()
        self.gone.append(peer.state)


def now() -> int:
    return monotonic_ns() // 1_000_000
