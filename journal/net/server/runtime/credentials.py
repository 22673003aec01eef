"""
The credentials of the peer of a Unix socket, as the system reports them.

C1  The owner of the store, that is the daemon's own user, may do everything, and so may root, which could anyway. Every other user
    proves a token, as over TCP; where there are no tokens, every other user is refused.
C2  What the system cannot tell is not guessed: without credentials, and for users that have no number here (of another namespace),
    a token must be proved.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import NamedTuple

from journal.errors import AccessDenied
from journal.net.wire.auth import EVERYTHING, Grant

_UCRED = struct.Struct("iII")
_SO_PEERCRED: int | None = getattr(socket, "SO_PEERCRED", None)
_ROOT = 0
_UNMAPPED = 65534


class Credentials(NamedTuple):
    """The user and process that connected, as of that moment."""

    pid: int
    uid: int
    gid: int

    def __str__(self) -> str:
        return f"uid-{self.uid}"


def credentials_of(sock: socket.socket) -> Credentials | None:
    """Those of a Unix socket's other end; None where the system does not tell."""
    if _SO_PEERCRED is None or sock.family != socket.AF_UNIX:
        return None
    try:
        return Credentials(*_UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, _SO_PEERCRED, _UCRED.size)))
    except (OSError, struct.error):
        return None


def vouched(credentials: Credentials | None, *, has_tokens: bool) -> Grant | None:
    """What a peer of the Unix socket may do without a proof (C1); None: it must prove a token."""
    if credentials is not None and credentials.uid != _unmapped() and credentials.uid in (os.geteuid(), _ROOT):
        return EVERYTHING
    if has_tokens:
        return None
    user = "the system does not tell which user this is" if credentials is None else f"this is user {credentials.uid}"
    raise AccessDenied(
        f"{user}, and without a token only the daemon's own user ({os.geteuid()}) and root are let in: give the daemon tokens "
        "(`journal tokens add`)"
    )


def _unmapped() -> int:
    """The number that stands for all users of other namespaces: it identifies no user (C2)."""
    try:
        with open("/proc/sys/kernel/overflowuid") as f:
            return int(f.read())
    except (OSError, ValueError):
        return _UNMAPPED
