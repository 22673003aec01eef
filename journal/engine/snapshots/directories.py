"""
Where the copies of a snapshot lie: a directory of its own, in the store or where the caller wants it.

    work.journal/_snapshots/<pid>-<random>[-wipe]/000001.mdb …        removed with the snapshot, or by the next open
    <directory>/snapshot-<pid>-<random>/000001.mdb …                  removed with the snapshot

R1  The process that has a room holds a flock on its directory. A room in the store without a holder is left by a crash: it
    goes when the store is opened, and when another snapshot is taken there.
R2  Rooms are made and swept under a flock on the directory above them, so that none is swept before it is held.
R3  What the journal says of wiping counts for copies too, also for what a crash has left of them.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from journal.engine.files.disposal import remove_left
from journal.engine.files.posix import SNAPSHOTS, check_own, make_directory, storage_error
from journal.errors import StorageError

log = logging.getLogger("journal.rooms")

_WIPE = "-wipe"


class Room:
    """One such directory, held."""

    def __init__(self, path: Path, *, wipe: bool) -> None:
        self.path = path
        self._wipe = wipe
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._is_gone = False
        self._fd = -1
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    @classmethod
    def make(cls, store: Path, directory: str | os.PathLike[str] | None, *, wipe: bool) -> Room:
        """A room in the directory, which is made if it is not there; without one in the store."""
        name = f"{os.getpid()}-{secrets.token_hex(8)}"
        top = store / SNAPSHOTS if directory is None else Path(directory).absolute()
        try:
            if directory is not None:
                os.makedirs(top, exist_ok=True)
                return cls(top / f"snapshot-{name}", wipe=wipe)
            while True:
                with suppress(FileExistsError, FileNotFoundError):  # other snapshots make it, and remove it when empty
                    make_directory(top)
                with _held(top) as is_there:
                    if is_there:
                        _sweep(top)
                        return cls(top / (name + _WIPE if wipe else name), wipe=wipe)
        except OSError as e:
            raise storage_error(e, f"cannot make a directory for a snapshot in {top}") from e

    def remove(self) -> None:
        """Remove all that is in it. In a forked child nothing happens: it is the parent's."""
        if self._pid != os.getpid():
            return
        with self._lock:
            if not self._is_gone:
                self._is_gone = True
                self._remove()

    def _remove(self) -> None:
        try:
            if os.path.lexists(self.path):
                remove_left(self.path, self._wipe)
            if self.path.parent.name == SNAPSHOTS:
                _remove_if_empty(self.path.parent)
        except (OSError, StorageError) as e:
            log.warning("snapshot_not_removed path=%s error=%s", self.path, e)  # the next open does it (R1)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self._let_go()  # one that lies in the caller's directory stays there


def sweep(store: Path) -> None:
    """Remove what a crash has left in a store (R1)."""
    top = store / SNAPSHOTS
    if os.path.lexists(top):
        with _held(top) as is_there:
            if is_there:
                check_own(top, is_directory=True)
                _sweep(top)
        _remove_if_empty(top)


@contextmanager
def _held(top: Path) -> Iterator[bool]:
    """The lock of the directory above (R2), and whether it is still there."""
    try:
        fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield os.fstat(fd).st_nlink > 0
    finally:
        os.close(fd)


def _remove_if_empty(top: Path) -> None:
    try:
        with _held(top) as is_there:
            if is_there:  # else it is another one by now, which has another holder
                os.rmdir(top)
    except OSError:
        return  # it has rooms of other snapshots, or it is gone


def _sweep(top: Path) -> None:
    for found in sorted(top.iterdir()):
        try:
            check_own(found, is_directory=True)
            fd = os.open(found, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # its owner has removed it just now
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(fd).st_nlink > 0:
                remove_left(found, found.name.endswith(_WIPE))
                log.warning("snapshot_swept path=%s", found)
        except BlockingIOError:
            continue  # in use: its holder lives
        finally:
            os.close(fd)
