"""
The hellos of both sides: versions, nonces, and the options of each side.

    client   {agent, nonce, session, proves}
    daemon   {agent, server, epoch, nonce, needs_proof, frame_bytes_max, in_flight_max, idle_ms}

H1  A hello that is accepted has everything that is read later: options are checked once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from journal.core.limits import ID_MAX
from journal.core.quoting import shown
from journal.errors import FrameError, Invalid, VersionUnsupported
from journal.net.wire.auth import SESSION_BYTES, check_nonce
from journal.net.wire.frames import MAGIC, VERSION, Hello, Pack, packer
from journal.net.wire.limits import HELLO_BYTES_MAX, Limits
from journal.net.wire.line import PLACE, checked
from journal.net.wire.sessions import Sessions
from journal.net.wire.tokens import Token


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """What all connections of a daemon share."""

    server: str
    epoch: int
    """A number that no earlier run of the daemon had: the store's opening."""
    sessions: Sessions[Any]
    """Of the connections that hold them: journal.net.wire.server_connection."""
    tokens: Mapping[str, Token]
    agent: str = "journal"
    pack: Pack = field(default_factory=packer)
    """Of all its connections: they share a thread."""

    def __post_init__(self) -> None:
        checked(self.server, PLACE, "server", "letters, digits, _ . and -")


class ClientHello(NamedTuple):
    """The options in a client's hello."""

    session: bytes
    nonce: bytes
    proves: bool
    """Whether it will prove an identity although the system vouches for it."""


class ServerHello(NamedTuple):
    """The options in a daemon's hello."""

    server: str
    epoch: int
    nonce: bytes
    needs_proof: bool
    frame_bytes_max: int
    in_flight_max: int
    idle_ms: int


def client_hello(session: bytes, nonce: bytes, *, proves: bool) -> Hello:
    """The first frame of a client."""
    options = {"agent": "journal", "nonce": nonce, "session": session, "proves": proves}
    return Hello(MAGIC, VERSION, VERSION, options)


def server_hello(daemon: Daemon, nonce: bytes, limits: Limits, *, needs_proof: bool) -> Hello:
    """The first frame of a daemon."""
    options = {
        "agent": daemon.agent,
        "server": daemon.server,
        "epoch": daemon.epoch,
        "nonce": nonce,
        "needs_proof": needs_proof,
        "frame_bytes_max": limits.frame_bytes_max,
        "in_flight_max": limits.in_flight_max,
        "idle_ms": limits.idle_ms,
    }
    return Hello(MAGIC, VERSION, VERSION, options)


def read_client_hello(hello: Hello) -> ClientHello:
    """What a client says (H1)."""
    _check_version(hello, "client", "daemon")
    options = hello.options
    try:
        nonce = check_nonce(options.get("nonce"))
        session = check_nonce(options.get("session"), SESSION_BYTES)
    except Invalid as e:
        raise FrameError(f"a hello without a nonce and a session: {e}") from e
    return ClientHello(session, nonce, options.get("proves") is True)


def read_server_hello(hello: Hello) -> ServerHello:
    """What a daemon says (H1)."""
    _check_version(hello, "daemon", "client")
    options = hello.options
    try:
        nonce = check_nonce(options.get("nonce"))
        server = checked(options.get("server"), PLACE, "server", "letters, digits, _ . and -")
    except Invalid as e:
        raise FrameError(f"a hello without a nonce and a server: {e}") from e
    return ServerHello(
        server,
        _number(options, "epoch", 0),
        nonce,
        options.get("needs_proof") is not False,
        _number(options, "frame_bytes_max", HELLO_BYTES_MAX),
        _number(options, "in_flight_max", 1),
        _number(options, "idle_ms", 1),
    )


def _number(options: Mapping[str, object], name: str, low: int) -> int:
    value = options.get(name)
    if type(value) is not int or not low <= value <= ID_MAX:
        raise FrameError(f"a hello whose {name} is {shown(value)}: it must be an int of at least {low}")
    return value


def _check_version(hello: Hello, other: str, we: str) -> None:
    if hello.magic != MAGIC:
        raise FrameError(f"a hello of {shown(hello.magic)}: this {we} speaks {MAGIC}")
    if not hello.low <= VERSION <= hello.high:
        raise VersionUnsupported(
            f"the {other} speaks versions {shown(hello.low)} to {shown(hello.high)}, this {we} speaks version {VERSION}"
        )
