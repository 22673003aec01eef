"""
Where the daemon of a store is, by the store's path: as its owner has written it into LOCK (docs/DATA.md), else at its usual socket.

W1  What is written there counts while its owner lives: a port that a dead daemon had may be another one's by now.
W2  The lock itself is never taken, not for a moment: another process might try to take it in that moment.
"""

from __future__ import annotations

import os
import stat

from journal.errors import Invalid
from journal.net.client.connection.address import DaemonAddress, parse_address

LOCK = "LOCK"
_BYTES_MAX = 64 * 1024
_KINDS = ("unix", "tcp", "tls")
"""In the order in which they are tried."""


def daemon_of(store: str) -> DaemonAddress:
    """Where to connect for a store; its own socket where nothing else is known."""
    owner, *written = _lines(os.path.join(store, LOCK)) or [""]
    if _is_alive(owner):
        for address in sorted(map(_parsed, written), key=lambda each: _KINDS.index(each.kind) if each else len(_KINDS)):
            if address is not None:
                return address
    return parse_address(store)


def _parsed(line: str) -> DaemonAddress | None:
    try:
        return parse_address(line) if line.startswith(("unix:", "tcp://", "tls://")) else None
    except Invalid:
        return None


def _lines(path: str) -> list[str]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []  # there is none, or it is not for us to read
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return []
        return os.fsdecode(os.pread(fd, _BYTES_MAX, 0)).splitlines()
    except OSError:
        return []
    finally:
        os.close(fd)


def _is_alive(owner: str) -> bool:
    """Whether the process is there that wrote its pid and start time (W1)."""
    words = owner.split()
    if len(words) < 2 or not (words[0].isascii() and words[0].isdigit()):
        return False
    try:
        with open(f"/proc/{words[0]}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[19] == words[1]
    except (OSError, IndexError):
        return False
