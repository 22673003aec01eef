r"""
A message: sender, receiver, command; and its line of text, for datagrams and for people with netcat.

    sent_from   server and service of the sender; on a connection it is the name that was registered there
    to          server and service it is meant for: the daemon, and a journal of it; empty: the daemon itself
    command     upper-case
    parameters  names to values: text in a line, any msgpack value in a frame

    [<from_server:from_service ][[server:]service/]COMMAND[ name=value[;name="quoted;value"]…][;]

A value that contains ';', begins with '"', or begins or ends with a space is written in quotes. In every value `\\ \n \r \"` stand
for a backslash, a new line, a carriage return and a quote; no other escape exists. UTF-8. One line end may follow.

M1  A message that exists is well-formed: names, places and the command match their patterns.
N1  Total: any bytes give a Message or a LineError with the position (of a byte) and a reason, and nothing else.
N2  `parse_line(format_line(m)) == m` for every message whose values are texts, and a message has one text.
N3  The length is checked before a byte is looked at, the number of parameters before another one is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from journal.core.quoting import shown
from journal.core.requests.types import NAME as NAME
from journal.core.requests.types import PLACE as PLACE
from journal.errors import Invalid, LineError
from journal.net.wire.limits import DEFAULT, NAME_MAX

COMMAND = re.compile(r"[A-Z_][A-Z0-9_]*", re.ASCII)

BYTES_MAX = DEFAULT.line_bytes_max
PARAMETERS_MAX = DEFAULT.parameters_max
_ESCAPES = {"\\": "\\", "n": "\n", "r": "\r", '"': '"'}
_PLAIN = re.compile(r"[^;\\]*")
_QUOTED = re.compile(r'[^"\\]*')


class LineAddress(NamedTuple):
    """A server and a service of it; either may be empty."""

    server: str = ""
    service: str = ""

    def __str__(self) -> str:
        return f"{self.server}:{self.service}" if self.server else self.service


NOWHERE = LineAddress()


@dataclass(frozen=True, slots=True)
class Message:
    """One message (M1)."""

    command: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    to: LineAddress = NOWHERE
    sent_from: LineAddress | None = None

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
    if type(address) is not LineAddress:
        raise Invalid(f"{what} is {shown(address)}: it must be an Address")
    if address.server and not address.service:
        raise Invalid(f"{what} has the server {shown(address.server)} and no service: give both")
    if is_whole and not (address.server and address.service):
        raise Invalid(f"{what} is {shown(str(address))}: a sender has a server and a service")
    for part in address:
        if part or is_whole:
            checked(part, PLACE, f"{what} server or service", "letters, digits, _ . and -")


def parse_line(raw: bytes, *, bytes_max: int = BYTES_MAX, parameters_max: int = PARAMETERS_MAX) -> Message:
    """The message of a line (N1)."""
    if len(raw) > bytes_max:
        raise _error(f"it has {len(raw)} bytes, and {bytes_max} are allowed", bytes_max)
    body = raw[:-1] if raw.endswith(b"\n") else raw
    body = body[:-1] if body.endswith(b"\r") else body
    for end in (b"\n", b"\r"):
        if end in body:
            raise _error("a line end within the line", body.index(end))
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as e:
        raise _error("not UTF-8", e.start) from e
    return _Reading(text, parameters_max).message()


def format_line(message: Message, *, bytes_max: int = BYTES_MAX) -> bytes:
    """The line of a message, without a line end; values are texts or ints (N2)."""
    sent_from = "" if message.sent_from is None else f"<{message.sent_from} "
    to = "" if message.to == NOWHERE else f"{message.to}/"
    pairs = [f"{name}={_written(name, message.parameters[name])}" for name in sorted(message.parameters)]
    text = f"{sent_from}{to}{message.command}" + (" " + ";".join(pairs) if pairs else "")
    try:
        line = text.encode("utf-8")
    except UnicodeEncodeError as e:
        raise Invalid(f"{shown(text[e.start : e.end])} cannot be written as UTF-8: it has lone surrogates") from e
    if len(line) > bytes_max:
        raise Invalid(f"the line of {message.command} has {len(line)} bytes, and {bytes_max} are allowed: send less")
    return line


def _written(name: str, value: object) -> str:
    if type(value) is int:
        return str(value)
    if type(value) is not str:
        raise Invalid(f"{name} is {shown(value)}: in a line a value is a text or an int")
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    if ";" in value or value[:1] in ('"', " ") or value[-1:] == " ":
        return '"' + text.replace('"', '\\"') + '"'
    return text


def _error(reason: str, position: int) -> LineError:
    return LineError(f"not a message line, at byte {position}: {reason}", position=position, reason=reason)


class _Reading:
    """One line that is being read."""

    def __init__(self, text: str, parameters_max: int) -> None:
        self.text = text
        self.at = 0
        self.parameters_max = parameters_max

    def fail(self, reason: str, at: int | None = None) -> NoReturn:
        position = self.at if at is None else at
        raise _error(reason, len(self.text[:position].encode("utf-8")))

    def message(self) -> Message:
        if not self.text:
            self.fail("it is empty")
        if self.text.startswith("{"):
            self.fail("JSON is not understood here: write COMMAND name=value;name=value")
        sent_from = self.sender() if self.text.startswith("<") else None
        to = self.target()
        command = self.word(COMMAND, "a command, in upper-case letters")
        parameters: dict[str, str] = {}
        if self.at < len(self.text):
            self.expect(" ", "a space after the command")
            self.skip_spaces()
            self.pairs(parameters)
        return Message(command, parameters, to, sent_from)

    def sender(self) -> LineAddress:
        self.at = 1
        server = self.word(PLACE, "the sender's server")
        self.expect(":", "':' and the sender's service")
        service = self.word(PLACE, "the sender's service")
        self.expect(" ", "a space after the sender")
        self.skip_spaces()
        return LineAddress(server, service)

    def target(self) -> LineAddress:
        """What stands in front of '/', if there is one before the first space."""
        head = self.text[self.at :].partition(" ")[0]
        if "/" not in head:
            return NOWHERE
        first = self.word(PLACE, "a server or a service")
        server, service = "", first
        if self.text.startswith(":", self.at):
            self.at += 1
            server, service = first, self.word(PLACE, "a service")
        self.expect("/", "'/' after the service")
        return LineAddress(server, service)

    def pairs(self, parameters: dict[str, str]) -> None:
        while self.at < len(self.text):
            if len(parameters) == self.parameters_max:
                self.fail(f"more than {self.parameters_max} parameters")  # N3
            start = self.at
            name = self.word(NAME, "a parameter's name")
            if name in parameters:
                self.fail(f"the parameter {name} comes twice", start)
            self.expect("=", f"'=' after {name}")
            parameters[name] = self.value()
            if self.at < len(self.text):
                self.expect(";", "';' or the end after a value")

    def value(self) -> str:
        is_quoted = self.text.startswith('"', self.at)
        start = self.at
        self.at += is_quoted
        usual = _QUOTED if is_quoted else _PLAIN
        parts: list[str] = []
        while True:
            match = usual.match(self.text, self.at)
            assert match is not None
            parts.append(match[0])
            self.at = match.end()
            if not self.text.startswith("\\", self.at):
                break
            escaped = _ESCAPES.get(self.text[self.at + 1 : self.at + 2])
            if escaped is None:
                self.fail(r"a backslash begins one of \\ \n \r" + ' \\"')
            parts.append(escaped)
            self.at += 2
        if is_quoted:
            if self.at == len(self.text):
                self.fail("a quote that is not closed", start)
            self.at += 1
        return "".join(parts)

    def word(self, pattern: re.Pattern[str], what: str) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            self.fail(f"{what} is expected, not {shown(self.text[self.at : self.at + 10])}")
        if len(match[0]) > NAME_MAX:
            self.fail(f"{what} has at most {NAME_MAX} characters, this one has {len(match[0])}")
        self.at = match.end()
        return match[0]

    def expect(self, mark: str, what: str) -> None:
        if not self.text.startswith(mark, self.at):
            self.fail(f"{what} is expected, not {shown(self.text[self.at : self.at + 10])}")
        self.at += 1

    def skip_spaces(self) -> None:
        while self.text.startswith(" ", self.at):
            self.at += 1
