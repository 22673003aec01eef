"""
All commands of the daemon, in one table. What docs/PROTOCOL.md lists, what a client may send and what a daemon checks is read from it.
"""

from __future__ import annotations

from journal.errors import UnknownCommand
from journal.net import control, verbs
from journal.net.command import Command
from journal.net.shown import shown

COMMANDS: dict[str, Command] = {row.name: row for row in (*control.ROWS, *verbs.ROWS)}
"""Every command by its name, in the order of the documentation."""


def command_named(name: str) -> Command:
    """The row of a command."""
    try:
        return COMMANDS[name]
    except KeyError:
        raise UnknownCommand(f"there is no command {shown(name)}: COMMANDS lists those that there are") from None
