"""
The limits of a connection, in one frozen object. A length, a count or a wait without a limit is a defect.

Times are milliseconds. What a limit guards is said with it; what happens when it is reached stands in docs/PROTOCOL.md.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from journal.core.limits import CREDIT_MAX
from journal.errors import Invalid

HELLO_BYTES_MAX = 4096
"""The most that a frame may have before its sender is known: strangers get no memory."""
FRAME_BYTES_LIMIT = 1 << 27
"""No frame is longer, whatever the sides agree on."""
NESTING_MAX = 16
"""Lists and maps within each other. The data of entries does not count: it travels packed."""
NAME_MAX = 64
DATAGRAM_BYTES_MAX = 1200
"""Fits into one packet on every network in use."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one connection may take."""

    frame_bytes_max: int = 1 << 20
    """Of a frame's body; checked from its length, before the body is waited for."""
    line_bytes_max: int = 8192
    parameters_max: int = 64
    in_flight_max: int = 128
    """Requests that are not answered yet; more are not read."""
    output_bytes_max: int = 4 << 20
    """Bytes that wait to be sent; with more no request is read and nothing is pushed."""
    subscriptions_max: int = 64
    credit_max: int = CREDIT_MAX
    hello_ms: int = 10_000
    """From the connection to the welcome."""
    frame_ms: int = 30_000
    """From the first byte of a frame or a line to its last."""
    idle_ms: int = 90_000
    """Without a byte from the other side; a client sends a PING each third of it."""
    send_ms: int = 30_000
    """Without the other side taking a byte of what waits."""
    stop_ms: int = 30_000
    """For what is in flight when a daemon stops."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise Invalid(f"{field.name} is {value!r}: it must be an int of at least 1")
        if not HELLO_BYTES_MAX <= self.frame_bytes_max <= FRAME_BYTES_LIMIT:
            raise Invalid(
                f"frame_bytes_max is {self.frame_bytes_max}: it must be from {HELLO_BYTES_MAX} to {FRAME_BYTES_LIMIT}"
            )


DEFAULT = Limits()
