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
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from journal.core.buckets import Range
from journal.core.requests import types
from journal.core.requests.request import Request
from journal.core.settings import MERGED
from journal.errors import Invalid

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


def when(word: str) -> int:
    """A date argument: milliseconds, or ISO 8601 with a time zone."""
    if word.isdigit():
        return int(word)
    try:
        moment = datetime.fromisoformat(word)
    except ValueError as e:
        raise argparse.ArgumentTypeError(f"{word!r} is neither milliseconds nor an ISO 8601 date: {e}") from e
    if moment.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{word!r} has no time zone: add Z or +hh:mm")
    return int(moment.timestamp() * 1000)


def _buckets(word: str) -> Range:
    try:
        return Range.parse(word)
    except Invalid as e:
        raise argparse.ArgumentTypeError(str(e)) from e


PARSERS: dict[types.FieldType, Callable[[str], Any]] = {
    types.DATE: when, types.PRIORITY: int, types.VERSION: int, types.COUNT: int, types.BUCKETS: _buckets,
}  # fmt: skip
"""How a word becomes an argument of the verb, by the type of its field; others are texts, which the verb itself parses ("30s")."""


class Options:
    """Options for fields of a request: their names, types, choices and defaults are the request's, the help is said here."""

    def __init__(self, request: type[Request[Any]], **texts: str) -> None:
        parameters = request.command.parameters
        self._fields = {name: (parameters[name], text) for name, text in texts.items()}

    def __call__(self, sub: argparse.ArgumentParser) -> None:
        """Declare them."""
        for name, (parameter, text) in self._fields.items():
            flag, kind, default = "--" + name.replace("_", "-"), parameter.kind, parameter.default
            if kind is types.BOOL:
                sub.add_argument(flag, action="store_true", help=text)
                continue
            said = text if default is None or default == "" else f"{text}; default {default}"
            sub.add_argument(flag, type=PARSERS.get(kind, str), choices=kind.words or None, default=default, help=said)

    def given(self, args: argparse.Namespace) -> dict[str, Any]:
        """What was given, as arguments of the verb."""
        return {name: getattr(args, name) for name in self._fields}


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
