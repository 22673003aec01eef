"""What asks a daemon over one connection: a request is sent as its command, and read by what that declares as its reply."""

from __future__ import annotations

from copy import copy
from typing import Any, Self, TypeVar

from journal.core.limits import LIST_MAX
from journal.core.requests.request import Request, Scope
from journal.net.client.connection.call import Call, call_of
from journal.net.client.connection.due_notices import Ear
from journal.net.wire.codecs import codec_of, fields, part_codec

R = TypeVar("R")


class Client:
    """Asks a daemon over one connection, for a journal or (without a name) for the store."""

    def __init__(self, ear: Ear, timeout_ms: int | None, name: str = "") -> None:
        self.name = name
        self.ear = ear
        self.heart = ear.heart
        self.link = ear.heart.link
        self.timeout_ms = timeout_ms
        """In which a call must be answered; None: while the daemon is there."""

    def within(self, timeout_ms: int | None) -> Self:
        """The same, with another time in which a call must be answered."""
        other = copy(self)
        other.timeout_ms = timeout_ms
        return other

    def ask(self, call: Call) -> Any:
        """The answer to a call, as it came."""
        return self.link.ask(call, None if call.command.is_long else self.timeout_ms)

    def call(self, request: Request[R], /) -> R:
        """What a request comes to."""
        command = request.command
        if part_codec(command.reply) is not None:
            found: Any = self.in_parts(request)[0]
        else:
            answer = self.ask(call_of(request, self.name if command.scope is Scope.JOURNAL else ""))
            found = codec_of(command.reply).read(answer)
        result: R = found
        return result

    def in_parts(self, request: Request[Any], limit: int | None = None) -> tuple[list[Any], bytes | None]:
        """A list that comes in parts, with `limit` so many rows of it; and where to go on, None: that was all."""
        command = request.command
        part = part_codec(command.reply)
        assert part is not None
        name, codec = part
        asked = call_of(request, self.name if command.scope is Scope.JOURNAL else "")
        found: list[Any] = []
        while True:
            if limit is not None:
                asked.parameters["limit"] = min(limit - len(found), LIST_MAX)
            rows, after = fields(self.ask(asked), command.name, **{name: list}, after=bytes | None)
            found += map(codec.read, rows)
            if after is None or (limit is not None and len(found) >= limit):
                return found, after
            asked.parameters["after"] = after
