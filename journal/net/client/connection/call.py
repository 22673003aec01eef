"""A question to a daemon, as a connection carries it: made of a request (journal.core.requests), or by the hot verbs directly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from journal.core.requests.request import Command, Request

Undo = Callable[[Any], "list[Call]"]


class Call(NamedTuple):
    """One question."""

    command: Command
    journal: str
    parameters: dict[str, Any]
    undo: Undo | None = None
    """What to ask when the answer comes after its caller has stopped waiting; it gets the answer."""


def call_of(request: Request[Any], journal: str = "", undo: Undo | None = None) -> Call:
    """The call of a request."""
    return Call(request.command, journal, request.to_wire(), undo)
