"""
The commands for the daemon itself, which people with netcat may send as lines too. Rows of the table, see
journal.net.wire.commands.command.

Answered by the connection alone, without the engine: REGISTER, UNREGISTER, COMMANDS, ALIVE.
"""

from __future__ import annotations

from journal.net.wire.commands import types as p
from journal.net.wire.commands.command import ADMIN, ANYBODY, CONSUME, KNOWN, Command, Retry, Scope, command
from journal.net.wire.commands.types import Parameter

_DAEMON = Scope.DAEMON

ROWS: tuple[Command, ...] = (
    command(
        "REGISTER", _DAEMON, KNOWN, Retry.CONNECTION,
        (Parameter("service", p.PLACES, is_required=True), Parameter("version", p.integer("version", 1, 255))),
        "{service, commands: [text]}",
        "Gives this connection a name, which the identity must be allowed; consumer defaults to it.",
        ("HELP", "READY"),
    ),
    command(
        "UNREGISTER", _DAEMON, KNOWN, Retry.CONNECTION, (Parameter("service", p.PLACES),), "null",
        "Takes the connection's name away; with `service`: when it is that one.", ("READY",),
    ),
    command(
        "COMMANDS", _DAEMON, ANYBODY, Retry.ALWAYS, (Parameter("list", p.list_of(p.TEXT, 256)),), "[text]",
        "The commands that there are; as a line: that can be sent as one. With `list` a service says which ones it understands, as the "
        "answer to HELP.",
        ("COMMANDS",),
    ),
    command(
        "PING", _DAEMON, ANYBODY, Retry.ALWAYS,
        (Parameter("sent", p.DATE), Parameter("offset", p.NUMBER), Parameter("delay", p.NUMBER)),
        "{received, answered}",
        "The heartbeat, with the daemon's clock. `offset` and `delay` are what the client reckoned from the last one: its drift.",
        ("PONG",),
    ),
    command(
        "ALIVE", _DAEMON, ANYBODY, Retry.ALWAYS, (Parameter("serial", p.TEXT),), "{serial}", "Are you alive?",
        ("ABSOLUTELY",),
    ),
    command(
        "LISTEN", _DAEMON, CONSUME, Retry.CONNECTION,
        (
            Parameter("port", p.PORT, is_required=True),
            Parameter("journals", p.list_of(p.JOURNAL, 1024), is_required=True),
            Parameter("listener", p.ID),
        ),
        "{listener, cookie, lease_ms, sequence}",
        "Asks for a datagram, to this port of the peer's own host, when entries fall due. With `listener`: renews its lease.",
        ("LISTENING",),
    ),
    command(
        "UNLISTEN", _DAEMON, CONSUME, Retry.CONNECTION, (Parameter("listener", p.ID, is_required=True),), "bool",
        "Ends that; false when there was none.", ("UNLISTENED",),
    ),
    command(
        "STATUS", _DAEMON, KNOWN, Retry.ALWAYS, (Parameter("service", p.PLACES),), "{status, up_since, …}",
        "How the daemon is, or whether a service is registered.", ("STATUS",),
    ),
    command(
        "STOP", _DAEMON, ADMIN, Retry.NEVER, (), "null",
        "The daemon finishes what is under way and ends.", ("QUITTING",),
    ),
)  # fmt: skip

ANSWERED_HERE = frozenset({"REGISTER", "UNREGISTER", "COMMANDS", "ALIVE"})
"""The connection answers these itself."""
