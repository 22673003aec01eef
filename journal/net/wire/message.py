"""
A message: sender, receiver, command. One model, whatever it is written as (journal.net.wire.line, journal.net.wire.frames).

    sent_from   server and service of the sender; on a connection it is the name that was registered there
    to          server and service it is meant for: the daemon, and a journal of it; empty: the daemon itself
    command     upper-case
    parameters  names to values: text in a line, any msgpack value in a frame

M1  A message that exists is well-formed: names, places and the command match their patterns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from journal.core.quoting import shown
from journal.core.requests.types import NAME as NAME
from journal.core.requests.types import PLACE as PLACE
from journal.errors import Invalid
from journal.net.wire.limits import NAME_MAX

COMMAND = re.compile(r"[A-Z_][A-Z0-9_]*", re.ASCII)


class Address(NamedTuple):
    """A server and a service of it; either may be empty."""

    server: str = ""
    service: str = ""

    def __str__(self) -> str:
        return f"{self.server}:{self.service}" if self.server else self.service


NOWHERE = Address()


@dataclass(frozen=True, slots=True)
class Message:
    """One message (M1)."""

    command: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    to: Address = NOWHERE
    sent_from: Address | None = None

    def __post_init__(self) -> None:
        checked(self.command, COMMAND, "command", "upper-case letters, digits and _")
        for name in self.parameters:
            checked(name, NAME, "parameter name", "letters, digits and _, not beginning with a digit")
        _check_address(self.to, "to", is_whole=False)
        if self.sent_from is not None:
            _check_address(self.sent_from, "sent_from", is_whole=True)


def checked(text: Any, pattern: re.Pattern[str], what: str, allowed: str) -> str:
    """A name that matches its pattern, or the reason why it is none."""
    if type(text) is not str or len(text) > NAME_MAX or pattern.fullmatch(text) is None:
        raise Invalid(f"{shown(text)} is no {what}: 1 to {NAME_MAX} {allowed}")
    return text


def _check_address(address: Any, what: str, *, is_whole: bool) -> None:
    if type(address) is not Address:
        raise Invalid(f"{what} is {shown(address)}: it must be an Address")
    if address.server and not address.service:
        raise Invalid(f"{what} has the server {shown(address.server)} and no service: give both")
    if is_whole and not (address.server and address.service):
        raise Invalid(f"{what} is {shown(str(address))}: a sender has a server and a service")
    for part in address:
        if part or is_whole:
            checked(part, PLACE, f"{what} server or service", "letters, digits, _ . and -")
