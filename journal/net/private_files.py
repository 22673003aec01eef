"""
Files with secrets, which only their owner may read.

V1  What is checked is what is read: the file is opened first, and its descriptor is checked. A link, a pipe or a device is not waited for.
V2  A file that other users may read or write is refused: its secret is compromised. The message has the command that repairs it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from journal.errors import Invalid


def read_private(path: Path, what: str, *, bytes_max: int, owners: tuple[int, ...] | None = None) -> bytes:
    """The bytes of a file that is ours, or of one of these users. `what` names it in errors."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        if path.is_symlink():
            raise Invalid(f"{what} {path} is a symbolic link: give the file itself") from e
        raise Invalid(f"{what} {path} cannot be read: {e.strerror or e}") from e
    try:
        found = os.fstat(fd)
        check_private(path, what, found, (os.geteuid(),) if owners is None else owners)
        if found.st_size > bytes_max:
            raise Invalid(f"{what} {path} has {found.st_size} bytes, and {bytes_max} are allowed")
        with open(fd, "rb", closefd=False) as file:
            return file.read(bytes_max)
    finally:
        os.close(fd)


def check_private(path: Path, what: str, found: os.stat_result, owners: tuple[int, ...]) -> None:
    """Refuse what is no regular file of these users, or what other users may read or write (V2)."""
    if not stat.S_ISREG(found.st_mode):
        raise Invalid(f"{what} {path} is not a regular file")
    if found.st_uid not in owners:
        users = " or ".join(map(str, owners))
        raise Invalid(f"{what} {path} belongs to user {found.st_uid}, not to {users}: chown it")
    if stat.S_IMODE(found.st_mode) & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise Invalid(f"{what} {path} has the rights {mode:04o}, so others have a right to it: chmod 0600 {path}")
