"""
The daemon's Unix socket.

U1  Only our user can connect, at any time: a socket refuses connections until it listens, and by then it is 0600.
U2  A socket that a process listens on is never removed, and neither is a file that is no socket. What a dead daemon left is replaced.
    In a store's directory the store's lock already admits one daemon only; elsewhere daemons that start at the same time take turns.
U3  At the end the name goes if it is still that of our socket.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from journal.errors import Invalid, Refused

PATH_BYTES_MAX = 107
"""What the system's address of a socket can hold, without the zero at its end."""
BACKLOG = 1024
_PROBE_S = 1.0
_TURN_S = 2.0


def checked_path(path: Path) -> Path:
    """A path that a socket can have, absolute."""
    absolute = path.absolute()
    size = len(os.fsencode(absolute))
    if size > PATH_BYTES_MAX or b"\0" in os.fsencode(absolute):
        raise Invalid(
            f"the socket's path {absolute} has {size} bytes, and a Unix socket's may have {PATH_BYTES_MAX}: give a shorter one "
            "with --unix PATH (unix=), e.g. in /run"
        )
    return absolute


class UnixSocket:
    """A socket that listens, and its name."""

    def __init__(self, path: Path, *, backlog: int = BACKLOG) -> None:
        self.path = checked_path(path)
        self._pid = os.getpid()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _turn(self.path.parent):
                _clear(self.path)
                self._bind()
            self.socket.listen(backlog)  # U1
        except OSError as e:
            self.socket.close()
            raise Refused(f"cannot listen on {self.path}: {e.strerror or e}") from e
        except BaseException:
            self.socket.close()
            raise

    def _bind(self) -> None:
        self.socket.bind(str(self.path))
        os.chmod(self.path, 0o600)
        found = os.lstat(self.path)
        if not stat.S_ISSOCK(found.st_mode) or stat.S_IMODE(found.st_mode) != 0o600:
            raise Refused(f"{self.path} was exchanged while it was made: choose a directory that only you can write to")
        self._made = found.st_dev, found.st_ino

    def close(self) -> None:
        """Stop listening and take the name away (U3); in a forked child only our descriptor goes."""
        self.socket.close()
        if os.getpid() != self._pid:
            return
        try:
            found = os.lstat(self.path)
            if (found.st_dev, found.st_ino) == self._made:
                os.unlink(self.path)
        except OSError:
            pass  # it is gone, or out of reach: the next daemon replaces it


@contextmanager
def _turn(directory: Path) -> Iterator[None]:
    """One daemon at a time looks whether a name is free and takes it (U2)."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mode = os.fstat(fd).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise Refused(
                f"every user can write to {directory}, so any of them could exchange the socket: choose another place"
            )
        _wait_for_turn(fd, directory)
        yield
    finally:
        os.close(fd)


def _wait_for_turn(fd: int, directory: Path) -> None:
    """Bounded by a timeout: in a directory that other users can read, one of them may hold the lock for no reason."""
    until = monotonic() + _TURN_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as e:
            if monotonic() >= until:
                raise Refused(f"another process holds {directory}, where the socket is to be: try again") from e
        sleep(0.02)


def _clear(path: Path) -> None:
    """Remove what a dead daemon left (U2)."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise Refused(f"{path} is there and is no socket: it stays; choose another path, or move it away")
    if is_answered(path):
        raise Refused(f"another process listens on {path}: stop it, or choose another path with --unix PATH")
    os.unlink(path)


def is_answered(path: Path) -> bool:
    """Whether a process listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(str(path))
        except OSError as e:
            # Refused: no process listens. Every other error, such as a full queue, is no proof of that.
            return e.errno not in (errno.ECONNREFUSED, errno.ENOENT)
    return True
