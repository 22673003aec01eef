"""
The requests for the daemon itself, which people with netcat may send as lines too. See journal.core.requests.request.

Answered by the connection alone, without the engine: REGISTER, UNREGISTER, COMMANDS, ALIVE.
"""

from typing import Annotated, Any

from journal.core.requests.fields import Listener, Service
from journal.core.requests.request import ADMIN, ANY_CONNECTION, CONSUME, KNOWN, Request, RetryRule, Scope, request
from journal.core.requests.types import DATE, JOURNAL, NUMBER, PORT, TEXT, integer, list_of

_DAEMON = Scope.DAEMON
Number = Annotated[int | float, NUMBER]
Words = Annotated[list[str], list_of(TEXT, 256)]


@request(
    "REGISTER", KNOWN, RetryRule.CONNECTION, "{service, commands: [text]}", scope=_DAEMON, answers=("HELP", "READY")
)
class RegisterRequest(Request[dict[str, Any]]):
    """Gives this connection a name, which the identity must be allowed; consumer defaults to it."""

    service: Service
    version: Annotated[int, integer("version", 1, 255)] | None = None


@request("UNREGISTER", KNOWN, RetryRule.CONNECTION, "null", scope=_DAEMON, answers=("READY",))
class UnregisterRequest(Request[None]):
    """Takes the connection's name away; with `service`: when it is that one."""

    service: Service | None = None


@request("COMMANDS", ANY_CONNECTION, RetryRule.ALWAYS, "[text]", scope=_DAEMON, answers=("COMMANDS",))
class CommandsRequest(Request[list[str]]):
    """The commands that there are; as a line: that can be sent as one. With `list` a service says which ones it understands, as the
    answer to HELP."""

    list: Words | None = None


@request("PING", ANY_CONNECTION, RetryRule.ALWAYS, "{received, answered}", scope=_DAEMON, answers=("PONG",))
class PingRequest(Request[tuple[int, int]]):
    """The heartbeat, with the daemon's clock. `offset` and `delay` are what the client reckoned from the last one: its drift."""

    sent: Annotated[int, DATE] | None = None
    offset: Number | None = None
    delay: Number | None = None


@request("ALIVE", ANY_CONNECTION, RetryRule.ALWAYS, "{serial}", scope=_DAEMON, answers=("ABSOLUTELY",))
class AliveRequest(Request[dict[str, Any]]):
    """Are you alive?"""

    serial: Annotated[str, TEXT] | None = None


@request(
    "LISTEN",
    CONSUME,
    RetryRule.CONNECTION,
    "{listener, cookie, lease_ms, sequence}",
    scope=_DAEMON,
    answers=("LISTENING",),
)
class ListenRequest(Request[dict[str, Any]]):
    """Asks for a datagram, to this port of the peer's own host, when entries fall due. With `listener`: renews its lease."""

    port: Annotated[int, PORT]
    journals: Annotated[list[str], list_of(JOURNAL, 1024)]
    listener: Listener | None = None


@request("UNLISTEN", CONSUME, RetryRule.CONNECTION, "bool", scope=_DAEMON, answers=("UNLISTENED",))
class UnlistenRequest(Request[bool]):
    """Ends that; false when there was none."""

    listener: Listener


@request("STATUS", KNOWN, RetryRule.ALWAYS, "{status, up_since, …}", scope=_DAEMON, answers=("STATUS",))
class StatusRequest(Request[dict[str, Any]]):
    """How the daemon is, or whether a service is registered."""

    service: Service | None = None


@request("STOP", ADMIN, RetryRule.NEVER, "null", scope=_DAEMON, answers=("QUITTING",))
class StopRequest(Request[None]):
    """The daemon finishes what is under way and ends."""


ANSWERED_HERE = frozenset({"REGISTER", "UNREGISTER", "COMMANDS", "ALIVE"})
"""The connection answers these itself."""
