"""A daemon's end and a client's end of a connection, with the bytes carried by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from journal.core.requests.request import Role
from journal.net.wire.auth import EVERYTHING, Grant
from journal.net.wire.client_connection import ClientConnection, ClientSession
from journal.net.wire.events import Event, Requested
from journal.net.wire.frames import Decoder, Frame
from journal.net.wire.handshake import Daemon
from journal.net.wire.limits import DEFAULT, Limits
from journal.net.wire.server_connection import ServerConnection, ServerState
from journal.net.wire.sessions import Sessions
from journal.net.wire.tokens import Token

SECRET = bytes(range(32))
BACKEND = Grant("backend", frozenset({Role.PRODUCE, Role.CONSUME}), ("pages", "mail-*"), ("backend-*",))
TOKENS = {"backend": Token(SECRET, BACKEND), "root": Token(SECRET[:16], Grant("root", frozenset(Role)))}


class Peers:
    """Two ends; time stands still until a test moves it."""

    def __init__(
        self,
        *,
        limits: Limits = DEFAULT,
        client_limits: Limits = DEFAULT,
        tokens: Mapping[str, Token] = TOKENS,
        grant: Grant | None = EVERYTHING,
    ) -> None:
        self.now = 1000
        self.limits = limits
        self.grant = grant
        self.daemon = Daemon(server="work", epoch=7, sessions=Sessions(), tokens=tokens)
        self.session = ClientSession(bytes(16), limits=client_limits)
        self.numbers = iter(range(10_000))
        self.told: list[Event] = []
        """What the client was told."""
        self.asked: list[Event] = []
        """What the daemon was told."""
        self.connect()

    def nonce(self) -> bytes:
        return next(self.numbers).to_bytes(32, "big")

    def restart(self) -> None:
        """The daemon comes back and has forgotten everything."""
        self.daemon = Daemon(server="work", epoch=self.daemon.epoch + 1, sessions=Sessions(), tokens=self.daemon.tokens)

    def connect(self, identity: str = "", secret: bytes | None = None) -> None:
        self.client = ClientConnection(self.session, nonce=self.nonce(), now=self.now, identity=identity, secret=secret)
        self.server = ServerConnection(
            self.daemon, nonce=self.nonce(), now=self.now, grant=self.grant, limits=self.limits
        )

    def up(self, size: int = 1 << 30) -> list[Event]:
        """Carry bytes to the daemon."""
        data = bytes(self.client.outgoing[:size])
        self.client.sent(len(data), self.now)
        events = self.server.receive(data, self.now) if data else []
        self.asked += events
        return events

    def down(self, size: int = 1 << 30) -> list[Event]:
        """Carry bytes to the client."""
        data = bytes(self.server.outgoing[:size])
        self.server.sent(len(data), self.now)
        self.asked += self.server.more(self.now)
        events = self.client.receive(data, self.now) if data else []
        self.told += events
        return events

    def settle(self, answer: Callable[[Requested], Any] | None = None) -> None:
        """Carry everything both ways until nothing moves; `answer` replies to requests."""
        while True:
            seen = len(self.asked)
            self.up()
            for event in self.asked[seen:]:
                if isinstance(event, Requested) and answer is not None:
                    self.server.reply(event.id, answer(event), self.now)
            self.asked += self.server.more(self.now)
            self.down()
            if not self.client.outgoing and not self.server.outgoing and len(self.asked) == seen:
                return

    def ask(self, command: str, journal: str = "pages", **parameters: Any) -> int:
        return self.client.request(command, journal, parameters, self.now)

    def requests(self) -> list[Requested]:
        return [event for event in self.asked if isinstance(event, Requested)]


def of(kind: type, events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def frames(server: ServerConnection) -> list[Frame]:
    """What a daemon's end wants to send."""
    decoder = Decoder(1 << 20)
    decoder.feed(bytes(server.outgoing))
    return list(iter(decoder.next, None))


def opened(**options: Any) -> Peers:
    """Two ends after their handshake."""
    peers = Peers(**options)
    peers.settle()
    assert peers.server.state is ServerState.READY
    return peers
