"""Where processes listen, as Linux tells in /proc."""

from __future__ import annotations

import os
import sys
from pathlib import Path

LISTEN = "0A"
"""The state of a listening socket, in /proc/net/tcp."""


def sockets_of(pid: int) -> set[str]:
    """The inodes of a process's sockets."""
    found: set[str] = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(fd)
        except OSError:
            continue  # it was closed just now
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def family() -> set[int]:
    """This process and all below it: Java, and the Python that Java starts."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue  # it ended just now
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found: set[int] = set()
    pending = [os.getpid()]
    while pending:
        pid = pending.pop()
        found.add(pid)
        pending += parents.get(pid, [])
    return found


def listening(pids: set[int]) -> list[str]:
    """The addresses, in hexadecimal digits as /proc has them, where these processes listen."""
    inodes: set[str] = set()
    for pid in pids:
        try:
            inodes |= sockets_of(pid)
        except OSError:
            continue
    found: list[str] = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTEN and words[9] in inodes:
                found.append(words[1].partition(":")[0])
    return found


def is_loopback(address: str) -> bool:
    """127.0.0.0/8, ::1, or ::ffff:127.0.0.0/104; each word of an address is in the machine's own order of bytes."""
    raw = b"".join(int(address[n : n + 8], 16).to_bytes(4, sys.byteorder) for n in range(0, len(address), 8))
    if len(raw) == 4:
        return raw[0] == 127
    return raw == bytes(15) + b"\1" or (raw[:12] == bytes(10) + b"\xff\xff" and raw[12] == 127)
