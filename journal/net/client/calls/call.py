"""
A call: what a verb asks of a daemon, and how its answer is read. Made by the other modules of journal.net.client.calls, carried out by
the owner of a connection, blocking or not.

A verb that takes more than one question (a group that does not fit into a frame, a long list) is a generator of calls, which is sent
the answers and returns the result.

Y1  Arguments are checked here as the library checks them: the same error with the same text, and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, NamedTuple, TypeVar

from journal.core.quoting import shown
from journal.core.requests.registry import COMMANDS
from journal.core.requests.request import Command
from journal.errors import FrameError

R = TypeVar("R")

Undo = Callable[[Any], "list[Call[Any]]"]


class Call(NamedTuple, Generic[R]):
    """One question to a daemon."""

    command: Command
    journal: str
    parameters: dict[str, Any]
    read: Callable[[Any], R]
    is_slow: bool = False
    undo: Undo | None = None
    """What to ask when the answer comes after its caller has stopped waiting."""


Steps = Generator[Call[Any], Any, R]
"""A verb of several questions."""


def call(name: str, journal: str, read: Callable[[Any], R], /, **parameters: Any) -> Call[R]:
    """A call of a command; parameters that are None are left out."""
    given = {key: value for key, value in parameters.items() if value is not None}
    command = COMMANDS[name]
    return Call(command, journal, given, read, command.is_long)


def nothing(value: Any) -> None:
    """An answer that says only that it is done."""


def as_it_is(value: Any) -> Any:
    """An answer that needs no reading."""
    return value


def part_of_list(value: Any, name: str) -> tuple[list[Any], bytes | None]:
    """A part of a long list, and where the next one begins."""
    if type(value) is dict and type(value.get(name)) is list and type(value.get("after")) in (bytes, type(None)):
        return value[name], value["after"]
    raise FrameError(f"{shown(value)} is no part of a list: it has {name} and after")
