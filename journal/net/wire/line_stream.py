"""
Lines on a stream: for people with netcat, and programs that want no msgpack. Cutting bytes into lines, and answers as lines.

E1  A line that is too long is met when the limit is passed, not when its end comes.
"""

from __future__ import annotations

from typing import Any

from journal.core.limits import TEXT_BYTES_MAX
from journal.core.requests.request import Command
from journal.errors import Invalid, JournalError, LineError, UnknownCommand
from journal.net.wire.error_codes import to_wire
from journal.net.wire.line import LineAddress, Message, format_line

SERVICE = "journal"
"""The daemon's name as a service."""


class LineBuffer:
    """Bytes to lines: `feed` what came, then take lines with `next` until there is none."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Take bytes."""
        self._buffer += data

    def next(self) -> bytes | None:
        """The next line, with its end; None: there is no whole one."""
        end = self._buffer.find(b"\n", 0, self._bytes_max + 1)
        if end < 0:
            if len(self._buffer) > self._bytes_max:
                raise LineError(
                    f"a line of more than {self._bytes_max} bytes", position=self._bytes_max, reason="too long"
                )  # E1
            return None
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        return line

    @property
    def has_part(self) -> bool:
        """Whether a line has begun."""
        return bool(self._buffer)


def answer_lines(server: str, command: Command, result: Any) -> bytes:
    """The lines that answer a command; the last one says what it came to."""
    *first, last = command.answers
    lines = [_line(server, name, {}) for name in first]
    return b"".join([*lines, _line(server, last, _texts(result))])


def failure_line(server: str, command: str, error: BaseException) -> bytes:
    """The line that answers a command which is not known, or met an error."""
    if isinstance(error, UnknownCommand):
        return _line(server, "UNKNOWN", {"command": command, "message": "COMMANDS lists those that there are"})
    code, message, _ = to_wire(error)
    parameters: dict[str, Any] = {"code": code, "message": message[:1000]}
    if command:
        parameters["command"] = command
    if isinstance(error, LineError):
        parameters["position"] = error.position
    return _line(server, "INVALID", parameters)


def quitting_line(server: str) -> bytes:
    """The line that ends a connection whose daemon stops."""
    return _line(server, "QUITTING", {})


def _line(server: str, command: str, parameters: dict[str, Any]) -> bytes:
    message = Message(command, parameters, sent_from=LineAddress(server, SERVICE))
    try:
        return format_line(message, bytes_max=4 * TEXT_BYTES_MAX) + b"\n"
    except JournalError as e:
        raise Invalid(f"the answer {command} does not fit into a line: use frames") from e


def _texts(result: Any) -> dict[str, Any]:
    """A result as the parameters of a line."""
    if result is None:
        return {}
    if type(result) is not dict:
        return {"list" if type(result) is list else "result": _text(result)}
    return {name: _text(value) for name, value in result.items() if value is not None}


def _text(value: Any) -> str | int:
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is bytes:
        return value.hex()
    if type(value) is list:
        return ",".join(str(_text(item)) for item in value)
    return value if type(value) is int else str(value)
