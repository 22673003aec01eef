"""
The directories and files of a store, opened so that no foreign file is ever touched.

F1  Directories are 0700, files 0600, whatever the umask.
F2  Only regular files and directories of our own user, with one link, and never through a symbolic link; and one socket.
F3  A name is durable only after its directory was synced: code that makes, renames or removes a file calls `sync_directory`.
F4  A sync that failed is StoreFailed, whatever its error: the kernel may have dropped what was to be written, and says so
    once. A limit that is met before anything was written is StoreFull.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from journal.errors import StorageError, StoreDamaged, StoreFailed, StoreFull, StoreLocked

log = logging.getLogger("journal.files")

FULL = {
    errno.ENOSPC: "free some room on the disk",
    errno.EDQUOT: "free some room, or raise the quota",
    errno.EFBIG: "raise the limit of a file's size (ulimit -f), or take another file system",
    errno.EMFILE: "too many files are open in this process: raise ulimit -n, or close some",
    errno.ENFILE: "too many files are open on this machine: raise fs.file-max, or close some",
    errno.ENOMEM: "free some memory",
}
"""What ends by itself when there is room again, and what to do for it."""
UNKNOWN = "What was under way may or may not be stored. Close the store, look at the disk, and open it again"
SOCKET = "SOCKET"
"""Where the daemon of a store listens, in its directory."""
TOKENS = "_tokens"
"""The token file of a store (journal.net.wire.tokens). No journal can have this name."""
TOKENS_NEW = "_tokens.new"
"""While it is being written."""
SNAPSHOTS = "_snapshots"
"""The copies of snapshots that were taken without a `directory` (journal.engine.snapshots.directories)."""
_NOTE_BYTES = 64
_ADDRESSES_BYTES_MAX = 1 << 14


def storage_error(error: OSError, doing: str) -> StorageError:
    """The error of ours for one of the system's, with what to do."""
    reason = error.strerror or str(error)
    if error.errno in FULL:
        return StoreFull(f"{doing}: {reason}. Nothing was changed; {FULL[error.errno]} and try again")
    return StorageError(f"{doing}: {reason}. Nothing was changed")


def sync_failed(path: Path, error: OSError) -> StoreFailed:
    """The error of ours for a sync that failed (F4)."""
    return StoreFailed(f"cannot sync {path}: {error.strerror or error}. {UNKNOWN}")


def sync_file(fd: int, path: Path) -> None:
    """Make the content of a file durable (F4)."""
    try:
        os.fdatasync(fd)
    except OSError as e:
        raise sync_failed(path, e) from e


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable (F3)."""
    with durable_names(path):
        pass


@contextmanager
def durable_names(path: Path) -> Iterator[None]:
    """Names that are made, changed or removed in a directory meanwhile are durable at the end (F3, F4)."""
    try:
        # Before anything is changed: a limit of open files that is met afterwards would leave half of it.
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as e:
        raise storage_error(e, f"cannot open the directory {path}") from e
    try:
        yield
        try:
            os.fsync(fd)
        except OSError as e:
            raise sync_failed(path, e) from e
    finally:
        os.close(fd)


def check_own(path: Path, is_directory: bool) -> os.stat_result:
    """Refuse what is not plainly ours (F2)."""
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        raise StoreDamaged(f"{path} is a symbolic link: a store holds only its own files; remove the link")
    if is_directory != stat.S_ISDIR(found.st_mode) or not (is_directory or stat.S_ISREG(found.st_mode)):
        raise StoreDamaged(f"{path} is not a {'directory' if is_directory else 'regular file'}")
    if found.st_uid != os.geteuid():
        raise StoreDamaged(f"{path} belongs to user {found.st_uid}, not to us ({os.geteuid()}): fix its owner")
    if not is_directory and found.st_nlink != 1:
        raise StoreDamaged(f"{path} has {found.st_nlink} links: a store's files have one; remove the others")
    return found


def check_own_socket(path: Path) -> os.stat_result:
    """Refuse what is not a socket of ours (F2)."""
    found = os.lstat(path)
    if not stat.S_ISSOCK(found.st_mode):
        raise StoreDamaged(f"{path} is not a socket: a daemon's place is taken; move it away")
    if found.st_uid != os.geteuid():
        raise StoreDamaged(f"{path} belongs to user {found.st_uid}, not to us ({os.geteuid()}): remove it")
    return found


def make_directory(path: Path) -> bool:
    """Make a directory of ours, or check the one that is there; True when it was made. Its parent is synced."""
    if os.path.lexists(path):
        check_own(path, is_directory=True)
        return False
    with durable_names(path.parent):
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:  # made by another one since
            check_own(path, is_directory=True)
            return False
        except OSError as e:
            raise storage_error(e, f"cannot make {path}") from e
        os.chmod(path, 0o700)
    return True


def open_file(path: Path, flags: int = os.O_RDWR) -> int:
    """A file descriptor of a file of ours; made when flags has O_CREAT. Never through a link (F2)."""
    if not flags & os.O_CREAT:
        check_own(path, is_directory=False)
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if flags & os.O_CREAT:
        try:
            check_own(path, is_directory=False)
            os.fchmod(fd, 0o600)
        except BaseException:
            os.close(fd)
            raise
    return fd


def remove_tree(path: Path) -> None:
    """Remove a directory of ours with all that is in it (a journal that was never named in the catalog)."""
    check_own(path, is_directory=True)
    for child in os.scandir(path):
        if child.is_dir(follow_symlinks=False):
            remove_tree(Path(child.path))
        else:
            os.unlink(child.path)
    os.rmdir(path)


def write_all(fd: int, data: bytes | memoryview, position: int) -> None:
    """Write all bytes: a write that takes a part of them is no error."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, position)
        if written == 0:
            raise StorageError("the disk took no bytes of a write")
        position += written
        view = view[written:]


ZEROS_BYTES = 64 << 10
"""
Measured on ext4 of Linux 6.18: a write of 250 bytes into space prepared by calls of 64 KiB took 1.3 to 1.7 µs, of 1 MiB 2.8 to 3.2.
Presumably the page cache keeps what one call wrote as one piece, and a small write looks at all pages of it.
"""


def write_zeros(fd: int, begin: int, end: int) -> None:
    """Write zeros from here to there."""
    zeros = bytes(min(end - begin, ZEROS_BYTES))
    while begin < end:
        piece = min(len(zeros), end - begin)
        write_all(fd, memoryview(zeros)[:piece], begin)
        begin += piece


class OwnerLock:
    """
    LOCK: a flock, with the pid and start time of the owner for operators and the error message; behind that, one a line, the
    addresses where a daemon of the owner listens. What is written counts while the lock is held.
    """

    def __init__(self, store: Path) -> None:
        self._path = store / "LOCK"
        self._announced: dict[object, list[str]] = {}
        self._writing = threading.Lock()
        self._fd = open_file(self._path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            owner = os.pread(self._fd, 64, 0).decode(errors="replace").split()
            os.close(self._fd)
            pid = owner[0] if owner else "unknown"
            raise StoreLocked(
                f"{store} is owned by process {pid}: stop that process, work through it (its daemon), "
                "or open with readonly=True for a look"
            ) from e
        line = f"{os.getpid()} {_start_time()}".ljust(_NOTE_BYTES - 1) + "\n"
        try:
            os.pwrite(self._fd, line.encode(), 0)
            os.ftruncate(self._fd, _NOTE_BYTES)
        except OSError as e:
            # The flock is the lock; the pid only helps operators. A full disk must not keep the store closed.
            log.warning("lock_note_failed error=%s", e)

    def announce(self, who: object, addresses: list[str]) -> None:
        """Say where a daemon of ours listens; none: no longer."""
        with self._writing:
            self._announced.pop(who, None)
            if addresses:
                self._announced[who] = addresses
            lines = "".join(
                f"{address}\n" for each in self._announced.values() for address in each if "\n" not in address
            )
            if self._fd < 0:
                return
            try:
                os.ftruncate(self._fd, _NOTE_BYTES)
                os.pwrite(self._fd, os.fsencode(lines), _NOTE_BYTES)
            except OSError as e:
                log.warning("lock_note_failed error=%s", e)  # its socket is found in the store, where it usually is

    def close(self) -> None:
        """Give the store up (in a forked child: only our copy of the descriptor goes, the owner keeps the lock)."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def announced(store: Path) -> list[str]:
    """The addresses at which a daemon of the store's owner listens; for callers that found the store locked."""
    try:
        fd = open_file(store / "LOCK", os.O_RDONLY)
        try:
            lines = os.fsdecode(os.pread(fd, _NOTE_BYTES + _ADDRESSES_BYTES_MAX, 0)).splitlines()
        finally:
            os.close(fd)
    except OSError as e:
        raise storage_error(e, f"cannot read {store / 'LOCK'}") from e
    return lines[1:]


def _start_time() -> str:
    """When this process started, in the kernel's ticks; distinguishes two processes with one pid."""
    try:
        with open("/proc/self/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return "0"
