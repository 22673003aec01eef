"""
Events of a connection, for the program around it. Frozen values: they say what has happened, the program decides.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from journal.core.requests.request import Command
from journal.errors import JournalError
from journal.net.wire.auth import Grant


class Opened(NamedTuple):
    """Daemon: the handshake is over; the identity of the client."""

    grant: Grant


class Requested(NamedTuple):
    """Daemon: a request that is well-formed and allowed; it must be answered with `reply` or `fail`, once."""

    id: int
    command: Command
    journal: str
    parameters: dict[str, Any]


class Credited(NamedTuple):
    """Daemon: so many items of a subscription may be pushed now."""

    subscription: int
    credit: int


class Superseded(NamedTuple):
    """Daemon: the client has come with a new connection: this old one is over, its socket can be closed."""

    connection: Any


class Ended(NamedTuple):
    """Nothing more comes: send what is left to send, and close the socket. None: in good order."""

    error: JournalError | None


class Welcomed(NamedTuple):
    """Client: the handshake is over; whether the daemon is the one that the session knew (its memory of answers is there)."""

    server: str
    roles: frozenset[str]
    is_same_daemon: bool


class Answered(NamedTuple):
    """Client: what a request came to."""

    id: int
    result: Any


class Failed(NamedTuple):
    """Client: the error that a request met; ConnectionLost: its outcome is unknown."""

    id: int
    error: JournalError


class Pushed(NamedTuple):
    """Client: what a subscription delivers."""

    subscription: int
    items: list[Any]


class PingDue(NamedTuple):
    """Client: it is time for a PING, or the daemon will take the silence for an end."""


Event = Opened | Requested | Credited | Superseded | Ended | Welcomed | Answered | Failed | Pushed | PingDue
