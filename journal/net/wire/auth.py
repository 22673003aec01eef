"""
Authentication and authorization: how an identity is proved, and what it may do.

    client  hello   nonce c, session
    daemon  hello   nonce d
    client  prove   identity, HMAC-SHA-256(secret, "client" | identity | session | c | d)
    daemon  welcome identity, HMAC-SHA-256(secret, "daemon" | identity | session | c | d)

A1  The secret never travels. Both nonces are in both proofs, so an old handshake proves nothing, and a proof of one side is none of the
    other: the client knows that it talks to a daemon that has the secret too.
A2  Proofs are compared in constant time, also for an identity that does not exist: an answer does not tell which identities there are.
A3  An identity is bound to its connection. Under another name than those that it is allowed nothing is done, asked or listed.
A4  Nonces and secrets come from the caller: nothing here is random.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from journal.core.quoting import shown
from journal.core.requests.request import ADMIN, ANY_CONNECTION, Command, Role
from journal.errors import AccessDenied, Invalid

NONCE_BYTES = 32
SESSION_BYTES = 16
SECRET_BYTES_MIN = 16
SECRET_BYTES_MAX = 64
CLIENT = b"client"
DAEMON = b"daemon"
_NO_SECRET = bytes(SECRET_BYTES_MIN)


@dataclass(frozen=True, slots=True)
class Grant:
    """What an identity may do."""

    identity: str
    roles: frozenset[Role]
    journals: tuple[str, ...] = ("*",)
    """Patterns of the journals that it may name."""
    names: tuple[str, ...] = ()
    """Patterns of the consumers and producer groups that it may act under; its own name always."""

    def may_see(self, journal: str) -> bool:
        """Whether it may name this journal."""
        return "*" in self.journals or any(fnmatchcase(journal, pattern) for pattern in self.journals)

    def may_act_as(self, name: str) -> bool:
        """Whether it may be a consumer or a producer group of this name (A3)."""
        return name == self.identity or "*" in self.names or any(fnmatchcase(name, pattern) for pattern in self.names)

    def check(self, command: Command, journal: str, parameters: Mapping[str, Any]) -> None:
        """Refuse what it may not do; the parameters are well-formed."""
        if command.roles is ANY_CONNECTION:
            return
        if not (self.roles & command.roles or Role.ADMIN in self.roles):
            raise AccessDenied(
                f"{shown(self.identity)} may not {command.name}: it needs the role {' or '.join(sorted(command.roles))} and "
                f"has {', '.join(sorted(self.roles)) or 'none'}"
            )
        if _next_puts(parameters) and not self.roles & {Role.PRODUCE, Role.ADMIN}:
            raise AccessDenied(f"{shown(self.identity)} may not put what comes next: it needs the role produce")
        for named in _journals(journal, parameters):
            if not self.may_see(named):
                raise AccessDenied(f"{shown(self.identity)} has no right to the journal {shown(named)}")
        if command.roles == ADMIN:
            return  # an admin manages the consumers of other identities, and acts under no name
        for name in _names(parameters):
            if not self.may_act_as(name):
                raise AccessDenied(f"{shown(self.identity)} may not act under the name {shown(name)}")


def _journals(journal: str, parameters: Mapping[str, Any]) -> list[str]:
    """The journals that a request names; "*" stands for all that the identity may see."""
    named = [journal, parameters.get("journal", ""), *(parameters.get("journals") or [])]
    return [name for name in named if name and name != "*"]


def _names(parameters: Mapping[str, Any]) -> list[str]:
    """The names that a request acts under."""
    named = [parameters.get("consumer"), parameters.get("owner"), parameters.get("service")]
    for group in ("puts", "moves", "deletes"):
        named += [item.get("owner") for item in parameters.get(group) or []]
    named += [put.get("owner") for put in _next_puts(parameters)]
    return [name for name in named if name is not None]


def _next_puts(parameters: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The puts that come with a `done`."""
    return [put for put in (parameters.get("next"), *(parameters.get("nexts") or [])) if put is not None]


EVERYTHING = Grant("", frozenset(Role), ("*",), ("*",))
"""For a peer that the system vouches for: the owner of the store on its own socket."""
NOTHING = Grant("", frozenset(), (), ())


def proof(secret: bytes, side: bytes, identity: str, session: bytes, client: bytes, daemon: bytes) -> bytes:
    """The proof of one side (A1). Each part has its length in front: no two transcripts are the same bytes."""
    digest = hmac.new(secret, digestmod=hashlib.sha256)
    for part in (b"journal 1", side, identity.encode("utf-8", "replace"), session, client, daemon):
        digest.update(len(part).to_bytes(4, "big") + part)
    return digest.digest()


def is_proof(given: bytes, secret: bytes | None, *parts: Any) -> bool:
    """Whether a proof is right; `secret` is None for an identity that does not exist (A2)."""
    expected = proof(_NO_SECRET if secret is None else secret, *parts)
    return hmac.compare_digest(given, expected) and secret is not None


def check_nonce(nonce: Any, size: int = NONCE_BYTES) -> bytes:
    """A nonce or a session, checked."""
    if type(nonce) is not bytes or len(nonce) != size:
        raise Invalid(f"{shown(nonce)} is no nonce: it must be {size} random bytes")
    return nonce
