"""
What a command is: a name, the text of its help, its arguments, and the function that runs it.

A command of ours is a function under `@command(name, arguments…)`, whose docstring is the help. A command that needs more
room, or that comes from another package, is a module: its docstring is the help, and it has `arguments` and `run`. A module
with VERBS, a tuple of commands, is a group of them (`journal log show …`).
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from journal.core.settings import MERGED

Run: TypeAlias = Callable[[argparse.Namespace], int]
"""Does what the arguments say; its result is the exit code."""
Declare: TypeAlias = Callable[[argparse.ArgumentParser], object]
"""Adds arguments to a command's parser."""


class CliCommand(NamedTuple):
    """A command, or a group of them: then it has verbs and nothing to run."""

    name: str
    text: str
    arguments: tuple[Declare, ...] = ()
    run: Run | None = None
    verbs: tuple[CliCommand, ...] = ()

    def add_to(self, commands: Any) -> None:
        """Declare it below a parser: `commands` is what add_subparsers returned."""
        text = inspect.cleandoc(self.text)
        sub: argparse.ArgumentParser = commands.add_parser(
            self.name,
            help=text.splitlines()[0],
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if self.verbs:
            verbs = sub.add_subparsers(dest="verb", metavar="VERB", required=True)
            for verb in self.verbs:
                verb.add_to(verbs)
            return
        for declare in self.arguments:
            declare(sub)
        sub.add_argument("--json", action="store_true", help="print JSON, one object a line")
        sub.set_defaults(run=self.run)


def command(name: str, *arguments: Declare) -> Callable[[Run], CliCommand]:
    """Make a function a command, with these arguments in this order."""
    return lambda run: CliCommand(name, run.__doc__ or "", arguments, run)


def argument(*names: str, **options: Any) -> Declare:
    """An argument, in the words of argparse's add_argument."""
    return lambda sub: sub.add_argument(*names, **options)


def store_argument(text: str) -> Declare:
    """The STORE word."""
    return argument("store", metavar="STORE", help=text)


STORE_HELP = "the store's directory; or its daemon's address: unix:PATH, tcp://HOST:PORT, tls://HOST:PORT"
STORE = store_argument(STORE_HELP)
JOURNAL = argument("journal", metavar="JOURNAL", help="the journal's name")
LOG = argument("journal", metavar="JOURNAL", help=f"the journal's name; {MERGED}: all merged journals together")
"""The JOURNAL word of commands that are about a log."""
HEX = argument("--hex", action="store_true", help="KEY is hexadecimal bytes")


def command_of(module: Any, name: str = "") -> CliCommand:
    """The command, or the group, that a module is; by default it has the module's name."""
    name, text = name or module.__name__.rsplit(".", 1)[1], module.__doc__ or ""
    if hasattr(module, "VERBS"):
        return CliCommand(name, text, verbs=tuple(module.VERBS))
    return CliCommand(name, text, (store_argument(getattr(module, "STORE", STORE_HELP)), module.arguments), module.run)
