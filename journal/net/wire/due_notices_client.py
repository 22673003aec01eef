"""
LISTEN, the client's part: what a datagram says, which ones were lost, and when to claim without one. No socket, no clock.

V1  Only a datagram with the right cookie and a number that is new counts; anything else is counted as ignored, and changes nothing.
V2  A gap in the sequence, or a renewal with a higher number than was received, is a loss: the client claims at once.
V3  Whatever is lost, a client claims by itself after at most `most_ms`, at times that are spread: a thousand clients that lost one
    datagram together do not claim together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from journal.errors import Invalid, LineError
from journal.net.wire.limits import DATAGRAM_BYTES_MAX
from journal.net.wire.line import parse_line

_DIGITS_MAX = 19


class Notice(NamedTuple):
    """The content of a datagram."""

    journal: str
    due: int
    next_due: int | None
    lost: int
    """How many before it did not come: they may have been about any journal (V2)."""


class Watch:
    """One registration with a daemon, made from the reply to LISTEN."""

    def __init__(self, reply: dict[str, Any], now: int) -> None:
        try:
            self.listener: int = reply["listener"]
            self.cookie: str = reply["cookie"]
            self.lease_ms: int = reply["lease_ms"]
            self.sequence: int = reply["sequence"]
        except (KeyError, TypeError) as e:
            raise Invalid("the daemon's reply to LISTEN lacks the listener, cookie, lease or sequence") from e
        self.lost = 0
        self.ignored = 0
        """Forged, garbled or repeated datagrams."""
        self.renew_at = now + self.lease_ms // 3

    def receive(self, raw: bytes, now: int) -> Notice | None:
        """The content of a datagram; None when it does not count (V1)."""
        notice = self._read(raw)
        if notice is None:
            self.ignored += 1
        return notice

    def _read(self, raw: bytes) -> Notice | None:
        try:
            message = parse_line(raw, bytes_max=DATAGRAM_BYTES_MAX)
        except LineError:
            return None
        given = message.parameters
        if message.command != "DUE" or message.sent_from is None or given.get("cookie") != self.cookie:
            return None
        numbers = {name: _number(given.get(name)) for name in ("listener", "sequence", "due", "next")}
        sequence, due = numbers["sequence"], numbers["due"]
        if numbers["listener"] != self.listener or sequence is None or due is None or sequence <= self.sequence:
            return None
        lost = self._heard(sequence - 1)
        self.sequence = sequence
        return Notice(message.sent_from.service, due, numbers["next"], lost)

    def _heard(self, before: int) -> int:
        lost = max(0, before - self.sequence)
        self.lost += lost
        self.sequence = max(self.sequence, before)
        return lost

    def renewed(self, sequence: int, now: int) -> int:
        """The lease was renewed, and the daemon had sent so many: how many did not come (V2)."""
        self.renew_at = now + self.lease_ms // 3
        return self._heard(sequence)


def _number(text: Any) -> int | None:
    is_number = type(text) is str and text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if is_number else None


class Poll:
    """When to claim without a notice: rarely, and not all clients at once (V3)."""

    def __init__(self, *, first_ms: int = 1000, most_ms: int = 30_000, jitter: float = 0.25) -> None:
        if not (0 < first_ms <= most_ms and 0 <= jitter < 1):
            raise Invalid(
                f"first_ms {first_ms}, most_ms {most_ms}, jitter {jitter}: 0 < first <= most and 0 <= jitter < 1"
            )
        self._first_ms = first_ms
        self._most_ms = most_ms
        self._jitter = jitter
        self._delay_ms = first_ms

    def next_at(self, now: int, chance: float, next_due: int | None = None) -> int:
        """
        When to ask next; `chance` is a random number from 0 to 1. An entry that is known to fall due is asked for then.

        Each time the wait is twice as long, up to `most_ms` at the very most.
        """
        spread = 1 - self._jitter * chance
        at = now + max(1, int(self._delay_ms * spread))
        self._delay_ms = min(self._delay_ms * 2, self._most_ms)
        return at if next_due is None else max(now, min(at, next_due))

    def lost(self) -> None:
        """A datagram was lost, or there was work that no datagram had announced: poll more often again."""
        self._delay_ms = self._first_ms
