"""
The token file: the identities that a daemon knows, one in a line.

    # identity  secret (hex)                      roles            journals       names
    backend     9f86d081884c7d659a2feaa0c55ad015  produce,consume  pages,mail-*   backend-*
    watch       60303ae22b998861bce3b28f33eec1be  consume          *              -

roles: produce, consume, admin. journals, names: patterns with * ? [ ], separated by commas; `-` is none. An identity may always act
under its own name. The program that opens the file checks that it owns the file and that no other user may read it (0600).

O1  A file is taken whole or not at all; an error names the line and never shows a secret.
O2  `parse_tokens(format_tokens(tokens)) == tokens`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from journal.core.quoting import shown
from journal.core.requests.request import Role
from journal.errors import Invalid
from journal.net.wire.auth import SECRET_BYTES_MAX, SECRET_BYTES_MIN, Grant
from journal.net.wire.line import PLACE

BYTES_MAX = 1 << 20
_PATTERN = re.compile(r"[A-Za-z0-9_.*?\[\]!:@/-]+", re.ASCII)
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+", re.ASCII)
_NONE = "-"


class Token(NamedTuple):
    """An identity with its secret and what it may do."""

    secret: bytes
    grant: Grant


def parse_tokens(text: str) -> dict[str, Token]:
    """The identities of a file (O1)."""
    if len(text) > BYTES_MAX:
        raise Invalid(f"the token file has {len(text)} characters, and {BYTES_MAX} are allowed")
    tokens: dict[str, Token] = {}
    for number, line in enumerate(text.split("\n"), 1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        if len(fields) != 5:
            raise _wrong(number, f"{len(fields)} fields: identity, secret, roles, journals and names are expected")
        identity, secret, roles, journals, names = fields
        if PLACE.fullmatch(identity) is None or len(identity) > 64:
            raise _wrong(number, f"{shown(identity)} is no identity: 1 to 64 letters, digits, _ . and -")
        if identity in tokens:
            raise _wrong(number, f"the identity {shown(identity)} comes twice")
        tokens[identity] = Token(
            _secret(number, secret),
            Grant(identity, _roles(number, roles), _patterns(number, journals), _patterns(number, names)),
        )
    return tokens


def format_tokens(tokens: Mapping[str, Token]) -> str:
    """The text of a file (O2)."""
    lines = ["# identity secret roles journals names"]
    for identity, (secret, grant) in tokens.items():
        roles = ",".join(sorted(grant.roles)) or _NONE
        journals, names = (",".join(patterns) or _NONE for patterns in (grant.journals, grant.names))
        lines.append(f"{identity} {secret.hex()} {roles} {journals} {names}")
    text = "\n".join(lines) + "\n"
    if parse_tokens(text) != dict(tokens):
        raise Invalid(
            "these tokens cannot be written: an identity or a pattern has characters that a token file cannot hold"
        )
    return text


def _secret(number: int, written: str) -> bytes:
    size = len(written) // 2
    if _HEX.fullmatch(written) is None or not SECRET_BYTES_MIN <= size <= SECRET_BYTES_MAX:
        raise _wrong(
            number,
            f"the secret is not {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes in hexadecimal digits (not shown)",
        )
    return bytes.fromhex(written)


def _roles(number: int, written: str) -> frozenset[Role]:
    names = [] if written == _NONE else written.split(",")
    for name in names:
        if name not in set(Role):
            raise _wrong(number, f"{shown(name)} is no role: they are {', '.join(Role)}")
    return frozenset(Role(name) for name in names)


def _patterns(number: int, written: str) -> tuple[str, ...]:
    patterns = [] if written == _NONE else written.split(",")
    for pattern in patterns:
        if len(pattern) > 255 or _PATTERN.fullmatch(pattern) is None:
            raise _wrong(number, f"{shown(pattern)} is no pattern: letters, digits, _ . - : @ / and * ? [ ] !")
    return tuple(patterns)


def _wrong(number: int, reason: str) -> Invalid:
    return Invalid(f"the token file, line {number}: {reason}")
