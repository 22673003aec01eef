"""A client for tests of the daemon: the protocol's own client end on a blocking socket, one step at a time."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

import msgpack

from journal.net.wire.client_connection import ClientConnection, ClientSession
from journal.net.wire.events import Answered, Ended, Event, Failed, Pushed, Welcomed
from journal.net.wire.limits import DEFAULT, Limits

TIMEOUT_S = 100.0


def dial(address: str, source: str | None = None) -> socket.socket:
    """A socket that is connected to an address of a server; over TCP from one of our own, if that matters."""
    kind, _, rest = address.partition(":")
    if kind == "unix":
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(TIMEOUT_S)
        sock.connect(rest)
        return sock
    host, _, port = rest.removeprefix("//").rpartition(":")
    return socket.create_connection((host, int(port)), TIMEOUT_S, None if source is None else (source, 0))


class Wire:
    """One connection."""

    def __init__(
        self,
        address: str,
        *,
        session: ClientSession | None = None,
        identity: str = "",
        secret: bytes | None = None,
        limits: Limits = DEFAULT,
        source: str | None = None,
    ) -> None:
        self.sock = dial(address, source)
        self.session = session or ClientSession(os.urandom(16), limits=limits)
        self.connection = ClientConnection(self.session, nonce=os.urandom(32), now=0, identity=identity, secret=secret)
        self.seen: list[Event] = []
        """What came and was not asked for yet."""
        self.flush()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def welcome(self) -> Wire:
        """Until the handshake is over; raises what the daemon refused it with."""
        self.until(Welcomed)
        return self

    def flush(self) -> None:
        while self.connection.outgoing:
            self.connection.sent(self.sock.send(self.connection.outgoing), 0)

    def send(self, command: str, journal: str = "", parameters: Mapping[str, Any] | None = None) -> int:
        """Ask, and do not wait."""
        number = self.connection.request(command, journal, parameters or {}, 0)
        self.flush()
        return number

    def credit(self, subscription: int, number: int) -> None:
        self.connection.credit(subscription, number, 0)
        self.flush()

    def answer(self, number: int) -> Any:
        """What a request came to; raises its error."""
        while True:
            for event in self.seen:
                if isinstance(event, (Answered, Failed)) and event.id == number:
                    self.seen.remove(event)
                    if isinstance(event, Failed):
                        raise event.error
                    return event.result
            self.read()

    def call(self, command: str, journal: str = "", **parameters: Any) -> Any:
        """Ask, and wait for the answer."""
        return self.answer(self.send(command, journal, parameters))

    def put(self, key: str, value: Any = None, journal: str = "pages", **options: Any) -> Any:
        return self.call("PUT", journal, key=key, data=msgpack.packb(value), **options)

    def pushed(self, count: int = 1) -> list[Any]:
        """The next items that are pushed."""
        items: list[Any] = []
        while len(items) < count:
            items += self.until(Pushed).items
        return items

    def until(self, kind: type[Any]) -> Any:
        """The next event of a kind; raises the error that ends the connection before it."""
        while True:
            for event in self.seen:
                if isinstance(event, kind):
                    self.seen.remove(event)
                    return event
                if isinstance(event, Ended):
                    assert event.error is not None, "the connection ended in good order"
                    raise event.error
            self.read()

    def read(self) -> None:
        self.seen += self.connection.receive(self.sock.recv(65536), 0)
        self.flush()

    def close(self) -> None:
        self.sock.close()
