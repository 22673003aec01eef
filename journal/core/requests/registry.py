"""
All requests, by the name of their command. What docs/PROTOCOL.md lists, what a client may send and what a daemon checks is read from it.

A reply never waits for anything but the disk, since replies come in the order of the requests: what waits for work is pushed.
`result`, `lease`, `entry` … are the values of journal.net.wire.values. Long lists come in parts that fit into a frame: `after` of a reply
asks for the next part, null says that it was the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from journal.core.quoting import shown
from journal.core.requests import consume, control, follow, load, operate, produce, read, snapshot
from journal.core.requests.request import Command, Request
from journal.errors import UnknownCommand


def _declared(module: ModuleType) -> tuple[Command, ...]:
    """The commands of the requests that a module declares, in its order."""
    return tuple(
        kind.command
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, Request)
        and "command" in vars(kind)
        and kind.__module__ == module.__name__
    )


CONTROL = _declared(control)
GROUPS: dict[str, tuple[Command, ...]] = {
    "Producing": _declared(produce),
    "Loading": _declared(load),
    "Consuming": _declared(consume),
    "Reading": _declared(read),
    "Snapshots": _declared(snapshot),
    "Following": _declared(follow),
    "Keeping": _declared(operate),
}
COMMANDS: dict[str, Command] = {row.name: row for rows in (CONTROL, *GROUPS.values()) for row in rows}
"""Every command by its name, in the order of the documentation."""

NOT_COMMANDS: dict[str, str] = {
    "name": "a client knows what it asks about",
    "is_remote": "a client knows how it asks",
    "schema": "stands in SETTINGS",
    "shows_all": "a daemon shows all; a look at a store's files may not",
    "now": "PING tells the daemon's time",
    "measure_drift": "the daemon measures, with what PING carries",
    "load": "LOAD_BEGIN, LOAD_PART for each piece, LOAD_COMMIT",
    "wake": "wakes threads of one process",
    "has_bucket_index": "a daemon sees to its indexes itself",
    "prepare_buckets": "a daemon sees to its indexes itself",
    "within": "a client says how long it waits",
    "extended": "EXTEND answers the deadline and the version",
    "work": "SUBSCRIBE, or CLAIM with LISTEN: a reply waits for no work",
}
"""What else a Journal has, and what stands in its place."""
STORE_NOT_COMMANDS: dict[str, str] = {
    "path": "where the daemon keeps its files is its own business",
    "location": "a client knows the address",
    "is_remote": "a client knows how it asks",
    "existing_merged": "commands about logs name them",
    "close": "STOP ends the daemon, which closes its store",
    "drifts": "stands in STORE_STATISTICS",
    "serve": "the daemon does that already",
    "within": "a client says how long it waits",
}
"""What else a Store has, and what stands in its place."""


def command_named(name: str) -> Command:
    """The row of a command."""
    try:
        return COMMANDS[name]
    except KeyError:
        raise UnknownCommand(f"there is no command {shown(name)}: COMMANDS lists those that there are") from None


def answer_here(command: Command, parameters: Mapping[str, Any], *, is_line: bool) -> Any:
    """The reply to a command that needs no engine (control.ANSWERED_HERE). In a line: of the commands, those that a line can hold."""
    match command.name:
        case "REGISTER":
            return {"service": parameters["service"], "commands": _names(is_line)}
        case "COMMANDS":
            return _names(is_line)
        case "ALIVE":
            return {"serial": parameters.get("serial")}
        case _:
            return None


def _names(is_line: bool) -> list[str]:
    return [name for name, row in COMMANDS.items() if row.answers or not is_line]
