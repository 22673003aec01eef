"""
The server: binds, accepts, stops. `journal serve` runs one for a store, `store.serve()` one inside a program that goes on using the store.

V1  One thread serves all connections (journal.net.server.dispatcher). `stop`, `reload` and `join` may be called from any thread, `stop`
    also from a signal handler.
V2  Whether a peer may connect is decided before a byte is read: on the store's own socket the system identifies the peer; elsewhere a
    token must be proved, unless there are none, the peer is on this machine, and the program has allowed that (`trust_loopback`).
V3  A stop takes nothing new, answers what is in flight, and ends after `timeout_s` at the latest. What was not answered is as unknown to
    its client as after any broken connection, and no worse.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypedDict

from journal.core.quoting import shown, told
from journal.engine.files.posix import SOCKET
from journal.engine.store import EngineStore
from journal.errors import Busy, Invalid, JournalError, Refused, StoreFull
from journal.net.server.backups import Backing
from journal.net.server.connection import Peer, steady_ms
from journal.net.server.control import Controls
from journal.net.server.dispatcher import Hub
from journal.net.server.due_notices import Watching
from journal.net.server.feeds import Feeding
from journal.net.server.push import Pushing
from journal.net.server.runtime.addresses import Bind, check_consent, checked_binds, checked_places, place
from journal.net.server.runtime.credentials import credentials_of, vouched
from journal.net.server.runtime.event_loop import READ, Loop
from journal.net.server.runtime.unix_socket import BACKLOG, UnixSocket
from journal.net.server.snapshots import Snapshotting
from journal.net.wire.auth import EVERYTHING, NONCE_BYTES, Grant
from journal.net.wire.error_codes import to_wire
from journal.net.wire.frames import Encoder, Failure
from journal.net.wire.handshake import Daemon
from journal.net.wire.limits import DEFAULT, HELLO_BYTES_MAX, Limits
from journal.net.wire.server_connection import ServerConnection
from journal.net.wire.sessions import Sessions
from journal.net.wire.tokens import Token
from journal.shield import SHIELD, give_way, look_up_s
from journal.threads import begin

log = logging.getLogger("journal.daemon")

ACCEPTS = 64
"""Connections that are accepted at once, before other sockets have their turn."""
PAUSE_S = 1.0
"""When the system has no file descriptor left for another connection."""
STOP_S = 30.0
_NONE_LEFT = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class ServeOptions(TypedDict, total=False):
    """The options of a server."""

    unix: str | os.PathLike[str] | bool
    tcp: Sequence[tuple[str, int]]
    tokens: Mapping[str, Token] | None
    trust_loopback: bool
    tls: ssl.SSLContext | None
    name: str
    limits: Limits
    connections_max: int


class Server:
    """See the module."""

    def __init__(
        self,
        store: EngineStore,
        *,
        unix: str | os.PathLike[str] | bool = True,
        tcp: Sequence[tuple[str, int]] = (),
        tokens: Mapping[str, Token] | None = None,
        trust_loopback: bool = False,
        tls: ssl.SSLContext | None = None,
        name: str = "journal",
        limits: Limits = DEFAULT,
        connections_max: int = 1024,
    ) -> None:
        """
        unix    True: the socket in the store's directory; False: none; else its path
        tcp     hosts and ports to listen on; port 0: any that is free
        tokens  the identities that may connect (journal.net.wire.tokens); None: only users that the system vouches for
        tls     for all TCP connections
        trust_loopback  needed for TCP without tokens: every user of this machine may do everything
        """
        if type(connections_max) is not int or connections_max < 1:
            raise Invalid(f"connections_max is {connections_max!r}: it must be an int of at least 1")
        if not isinstance(limits, Limits):
            raise Invalid(f"limits is {shown(limits)}: it must be a Limits of journal.net.wire.limits")
        if tokens is not None and not isinstance(tokens, Mapping):
            raise Invalid(
                f"tokens is {shown(tokens)}: it must be a map, e.g. what read_tokens of journal.net.server.runtime.token_file gives"
            )
        if tls is not None and not isinstance(tls, ssl.SSLContext):
            raise Invalid(
                f"tls is {shown(tls)}: it must be an ssl.SSLContext, e.g. server_context(…) of journal.net.tls"
            )
        if not isinstance(unix, (bool, str, os.PathLike)):
            raise Invalid(f"unix is {shown(unix)}: it must be True, False or a path")
        self._tcp = checked_places(tcp)
        self._trusts_loopback = trust_loopback
        self.store = store
        self.addresses: list[str] = []
        """Where it listens, as `journal.connect` takes them."""
        self.on_ready: list[Callable[[], None]] = []
        self.on_stop: list[Callable[[], None]] = []
        """Called when it begins to stop."""
        self.loop = Loop()
        self.hub = Hub(store, self.loop)
        self.daemon = Daemon(
            server=name, epoch=store.next_epoch(), sessions=Sessions(), tokens=dict(tokens or {}), agent="journal"
        )
        self.watching = Watching(self.hub, name)
        self.pushing = Pushing(self.hub, self.watching)
        self.feeding = Feeding(self.hub)
        self.snapshotting = Snapshotting(self.hub)
        self.backing = Backing(self.hub)
        self.controls = Controls(self)
        self.is_stopping = False
        self._is_token_needed = tokens is not None
        self._unix_path = store.path / SOCKET if unix is True else None if unix is False else Path(unix)
        self._unix: UnixSocket | None = None
        self._tls = tls
        self._limits = limits
        self._connections_max = connections_max
        self._listening: list[socket.socket] = []
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    # -- from any thread ----------------------------------------------------------------------------------------------

    def start(self) -> Server:
        """Bind, and serve on a thread of its own."""
        self._bind()
        self.store.servers.add(self)
        thread = threading.Thread(target=self._run, name=f"journal-daemon-{self.store.path.name}", daemon=True)
        try:
            self._thread = begin(thread)
        except StoreFull:
            self.store.servers.discard(self)
            self._unbind()
            raise
        return self

    def run(self) -> None:
        """Bind, and serve on this thread until it is stopped."""
        self._bind()
        self.store.servers.add(self)
        self._run()

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Take nothing new, finish what is in flight, and end; returns at once (V3)."""
        self.loop.call(partial(self._stop, timeout_s))

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until it is over; whether it is."""
        by = None if timeout_s is None else monotonic() + timeout_s
        with SHIELD:
            while not self._is_over.wait(look_up_s(None if by is None else max(0.0, by - monotonic()))):
                if by is not None and monotonic() >= by:
                    return False
                give_way()
        return True

    def reload(self, tokens: Mapping[str, Token]) -> None:
        """Other tokens from now on. Connections of identities that are gone or have changed end. Not of one that asks for none."""
        if not self._is_token_needed:
            raise Invalid(
                "this server was started without tokens, and lets in clients that need none: tokens would keep no client out. Stop it, and "
                "start it with tokens"
            )
        self.loop.call(partial(self._reload, dict(tokens)))

    def declared(self, name: str) -> None:
        """The store has a journal that was not in use before."""
        self.loop.call(partial(self.watching.declared, name))

    def abandon_after_fork(self) -> None:
        """In a forked child: close what belongs to the parent, and change nothing of it."""
        for listening in self._listening:
            listening.close()
        for peer in self.hub.peers.values():
            peer.abandon_after_fork()
        self.loop.abandon_after_fork()
        self._is_over.set()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        self.join()

    # -- listening ----------------------------------------------------------------------------------------------------

    def _bind(self) -> None:
        if self.addresses:
            raise Invalid("this server was started before: make another one")
        binds = checked_binds(self._tcp, has_tokens=self._is_token_needed, has_tls=self._tls is not None)
        check_consent(has_places=bool(binds), has_tokens=self._is_token_needed, trust_loopback=self._trusts_loopback)
        if any(other._unix_path == self._unix_path for other in self.store.servers if self._unix_path is not None):
            raise Refused(
                f"this process serves the store on {self._unix_path} already: stop that server, or give this one another "
                "socket (unix=PATH, or unix=False and tcp=[…])"
            )
        try:
            for bind in binds:
                listening = _bind_tcp(bind)
                self._listening.append(listening)
                where = place(bind.host, listening.getsockname()[1])
                self.addresses.append(f"{'tcp' if self._tls is None else 'tls'}://{where}")
            if self._unix_path is not None:
                self._unix = UnixSocket(self._unix_path)
                self._listening.append(self._unix.socket)
                self.addresses.insert(0, f"unix:{self._unix.path}")
        except BaseException:
            self._unbind()
            raise
        if not self._listening:
            raise Invalid("a server without a socket serves no client: give unix=True or tcp=[(host, port)]")
        for listening in self._listening:
            listening.setblocking(False)
            self.loop.watch(listening, READ, partial(self._accept, listening))
        self.store.announce(self, self.addresses)

    def _unbind(self) -> None:
        self.store.announce(self, [])
        listening, self._listening = self._listening, []
        for sock in listening:
            sock.close()
        if self._unix is not None:
            self._unix.close()

    def _accept(self, listening: socket.socket, mask: int) -> None:
        for _ in range(ACCEPTS):
            try:
                sock, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as e:
                if e.errno in _NONE_LEFT:
                    log.error("accept_paused error=%s", e.strerror)
                    self.loop.forget(listening)
                    self.loop.at(monotonic() + PAUSE_S, partial(self._accept_again, listening))
                    return
                continue  # a connection that was gone before it was accepted
            try:
                self._greet(sock, address)
            except (OSError, JournalError) as e:
                log.warning("connection_refused reason=%s", told(e))
                self._refuse(sock, e)

    def _refuse(self, sock: socket.socket, error: Exception) -> None:
        """Say why, if that can be said at once, and close."""
        try:
            if isinstance(error, JournalError) and (sock.family == socket.AF_UNIX or self._tls is None):
                sock.send(Encoder(HELLO_BYTES_MAX)(Failure(0, *to_wire(error))))
        except OSError:
            pass  # it is gone, and needs no reason any more
        finally:
            sock.close()

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self._listening:
            self.loop.watch(listening, READ, partial(self._accept, listening))

    def _greet(self, sock: socket.socket, address: Any) -> None:
        """Accept or refuse a connection, by its peer (V2) and the room for it."""
        if len(self.hub.peers) >= self._connections_max:
            raise Busy(f"there are {self._connections_max} connections already: try again later")
        sock.setblocking(False)
        self.hub.accepted += 1
        grant: Grant | None
        if sock.family == socket.AF_UNIX:
            credentials = credentials_of(sock)
            grant = vouched(credentials, has_tokens=self._is_token_needed)
            host, name = "127.0.0.1", "unix" if credentials is None else f"{credentials}/{credentials.pid}"
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            host, name = address[0], f"{address[0]}:{address[1]}"
            grant = None if self._is_token_needed else EVERYTHING
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        connection = ServerConnection(
            self.daemon, nonce=os.urandom(NONCE_BYTES), now=steady_ms(), grant=grant, limits=self._limits
        )
        self.hub.peers[connection] = Peer(self.hub, sock, connection, host=host, name=name)

    # -- on the daemon's thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        self.hub.begin()
        try:
            log.info("serving store=%s at=%s", self.store.path, ",".join(self.addresses))
            for function in self.on_ready:
                function()
            self.loop.run()
        finally:
            self._unbind()
            self.watching.close()
            self.hub.end()
            self.snapshotting.close()
            self.backing.close()
            self.store.servers.discard(self)
            log.info("stopped store=%s", self.store.path)
            self._is_over.set()

    def _stop(self, timeout_s: float) -> None:
        if self.is_stopping:
            if timeout_s <= 0:
                self._give_up()
            return
        self.is_stopping = True
        log.info("stopping peers=%d", len(self.hub.peers))
        for function in self.on_stop:
            function()
        for listening in self._listening:
            self.loop.forget(listening)
        self._unbind()
        self.hub.on_empty = self.loop.end
        self.loop.at(monotonic() + timeout_s, self._give_up)
        now = steady_ms()
        for peer in list(self.hub.peers.values()):
            peer.stop(now)
        if not self.hub.peers:
            self.loop.end()

    def _give_up(self) -> None:
        """Time is up: what is not answered will not be."""
        for peer in list(self.hub.peers.values()):
            log.warning("unfinished peer=%s requests=%d", peer.name, peer.connection.in_flight)
            peer.close()
        self.loop.end()

    def _reload(self, tokens: dict[str, Token]) -> None:
        known = self.daemon.tokens
        assert isinstance(known, dict)
        changed = {name for name, token in known.items() if tokens.get(name) != token}
        known.clear()
        known.update(tokens)
        now = steady_ms()
        for peer in list(self.hub.peers.values()):
            if peer.connection.grant.identity in changed:
                peer.stop(now)
        log.info("tokens_reloaded identities=%d changed=%d", len(tokens), len(changed))


def _bind_tcp(bind: Bind) -> socket.socket:
    family = socket.AF_INET6 if ":" in bind.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((bind.host, bind.port))
        listening.listen(BACKLOG)
    except OSError as e:
        listening.close()
        raise Refused(f"cannot listen on {bind}: {e.strerror or e}") from e
    return listening
