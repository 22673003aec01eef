"""
All commands of the daemon, in one table. What docs/PROTOCOL.md lists, what a client may send and what a daemon checks is read from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from journal.errors import UnknownCommand
from journal.net.wire.commands import control, verbs
from journal.net.wire.commands.command import Command
from journal.net.wire.quoting import shown

COMMANDS: dict[str, Command] = {row.name: row for row in (*control.ROWS, *verbs.ROWS)}
"""Every command by its name, in the order of the documentation."""


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
