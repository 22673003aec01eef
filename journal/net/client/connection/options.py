"""The options of a client: identity, timeouts, reconnection. One frozen object, checked once."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from journal.core.times import DurationLike, duration_ms
from journal.errors import Invalid
from journal.net.wire.auth import SECRET_BYTES_MAX, SECRET_BYTES_MIN
from journal.net.wire.limits import DEFAULT, Limits
from journal.net.wire.line import PLACE, checked


@dataclass(frozen=True, kw_only=True, slots=True)
class Backoff:
    """
    When to try to connect again: after `first`, then after twice as long each time, up to `most`; each wait is shortened at random,
    so that many clients do not reconnect together. After `total` without a daemon waiting calls fail.
    """

    first: DurationLike = "50ms"
    most: DurationLike = "2s"
    total: DurationLike = "30s"
    jitter: float = 0.5
    first_ms: int = field(init=False)
    most_ms: int = field(init=False)
    total_ms: int = field(init=False)

    def __post_init__(self) -> None:
        for name in ("first", "most", "total"):
            object.__setattr__(self, f"{name}_ms", duration_ms(getattr(self, name), name))
        if not (0 < self.first_ms <= self.most_ms and 0 <= self.jitter < 1):
            raise Invalid(
                f"first {self.first!r}, most {self.most!r}, jitter {self.jitter!r}: 0 < first <= most and 0 <= jitter < 1"
            )
        if self.total_ms > TOTAL_MS_MAX:
            raise Invalid(
                f"total is {self.total!r}: a daemon remembers for two minutes what a client has asked, so it may be at "
                f"most {TOTAL_MS_MAX // 1000} s; catch ConnectionLost to go on for longer"
            )

    def wait_ms(self, attempt: int, chance: float) -> int:
        """How long to wait after so many failed attempts; `chance` is a random number from 0 to 1."""
        wait = min(self.first_ms << min(attempt, 30), self.most_ms)
        return max(1, int(wait * (1 - self.jitter * chance)))


TOTAL_MS_MAX = 90_000
"""Less than the time for which a daemon keeps a session (journal.net.wire.sessions): after that a session is lost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectOptions:
    """The options of a client, checked."""

    identity: str = ""
    secret: bytes | None = None
    name: str | None = None
    timeout_ms: int | None = None
    wait_ms: int = 0
    poll_ms: int = 30_000
    backoff: Backoff = field(default_factory=Backoff)
    tls: ssl.SSLContext | None = None
    """None: the system's authorities are trusted."""
    limits: Limits = DEFAULT


def options_of(
    *,
    identity: str | None,
    secret: bytes | str | None,
    token: str | None,
    name: str | None,
    timeout: DurationLike | None,
    wait: DurationLike,
    poll: DurationLike,
    backoff: Backoff | None,
    tls: ssl.SSLContext | None,
    limits: Limits,
) -> ConnectOptions:
    """The options of a client, from what its program gave."""
    if token is not None and not isinstance(token, str):
        raise Invalid(f"the token is a {type(token).__name__} (not shown): it must be a text, identity:secret")
    if token is not None:
        if identity is not None or secret is not None:
            raise Invalid("give a token, or an identity and its secret, not both")
        identity, colon, secret = token.partition(":")
        if not colon:
            raise Invalid("a token is written as identity:secret, the secret in hexadecimal digits")
    if (identity is None) != (secret is None):
        raise Invalid("an identity and its secret go together: give both, or neither on the daemon's own socket")
    if tls is not None and not isinstance(tls, ssl.SSLContext):
        raise Invalid(f"tls is {tls!r}: it must be an ssl.SSLContext")
    if backoff is not None and not isinstance(backoff, Backoff):
        raise Invalid(f"backoff is {backoff!r}: it must be a journal.net.client.connection.options.Backoff")
    if not isinstance(limits, Limits):
        raise Invalid(f"limits is {limits!r}: it must be a Limits of journal.net.wire.limits")
    return ConnectOptions(
        identity="" if identity is None else checked(identity, PLACE, "identity", "letters, digits, _ . and -"),
        secret=None if secret is None else _secret_bytes(secret),
        name=None if name is None else checked(name, PLACE, "name", "letters, digits, _ . and -"),
        timeout_ms=None if timeout is None else duration_ms(timeout, "timeout"),
        wait_ms=duration_ms(wait, "wait"),
        poll_ms=_poll_ms(poll),
        backoff=Backoff() if backoff is None else backoff,
        tls=tls,
        limits=limits,
    )


def _poll_ms(poll: DurationLike) -> int:
    wait = duration_ms(poll, "poll")
    if wait < 1:
        raise Invalid(f"poll is {poll!r}: it must be at least 1 ms, e.g. '30s'")
    return wait


def _secret_bytes(secret: bytes | str) -> bytes:
    try:
        raw: object = bytes.fromhex(secret) if isinstance(secret, str) else secret
    except ValueError:
        raw = b""
    if not isinstance(raw, (bytes, bytearray)):  # bytes(20) would be twenty zeros
        raw = b""
    if not SECRET_BYTES_MIN <= len(raw) <= SECRET_BYTES_MAX:
        raise Invalid(
            f"the secret is not {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes, or their hexadecimal digits (not shown)"
        )
    return bytes(raw)
