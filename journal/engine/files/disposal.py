"""
Disposal of a generation's files when nothing is left in them, and of segments of its log that go before. It runs on a thread of
its own, so no caller waits for it.

    delete     the files are unlinked
    truncate   the rows file is kept for a coming generation, cut to its first pages
    reset      it is kept as it is, its room with it

N1  With `wipe` the bytes are overwritten with zeros and synced before anything else happens to them.
N2  A file that still has readers (LMDB's reader table) is unlinked, whatever was asked: an inode lives as long as its
    readers, but a file that is written anew would change under them.
N3  What is disposed of is named by nothing any more: a crash leaves files that the next open removes, as N1 says.
"""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from queue import SimpleQueue

from journal.engine.files.lmdb import has_readers
from journal.engine.files.posix import check_own, open_file, sync_directory
from journal.errors import StorageError, StoreFull
from journal.threads import begin

log = logging.getLogger("journal.disposal")

SPARE = "spare.mdb"
_ZEROS = bytes(1 << 20)


class Disposal:
    """Disposes of files in the order in which they come."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[tuple[Path, str, bool] | None] = SimpleQueue()
        self._name = name
        self._thread: threading.Thread | None = None

    def take(self, path: Path, on_empty: str, wipe: bool) -> None:
        """Dispose of a generation's directory, of its log, or of a segment."""
        self._jobs.put((path, on_empty, wipe))
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=f"journal-disposal-{self._name}", daemon=True)
            try:
                self._thread = begin(thread)
            except StoreFull as e:
                log.warning("disposal_postponed path=%s error=%s", path, e)  # to the next one, or the end

    def close(self) -> None:
        """Wait until all is done."""
        self._jobs.put(None)
        if self._thread is None:
            self._run()
        else:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                dispose(*job)
            except (OSError, StorageError) as e:
                # The next open removes what is left (N3).
                log.warning("disposal_failed path=%s error=%s", job[0], e)


def dispose(path: Path, on_empty: str, wipe: bool) -> None:
    """Dispose of a directory, or of a file."""
    rows = path / "rows.mdb"
    if on_empty != "delete" and rows.exists() and not has_readers(rows):
        if wipe:
            _wipe(rows)
        os.rename(rows, path.parent / SPARE)
        sync_directory(path.parent)
    remove_left(path, wipe)
    sync_directory(path.parent)


def remove_left(path: Path, wipe: bool) -> None:
    """Remove what is left of a generation, a directory or a file, if it is there (N3)."""
    if path.is_dir() and not path.is_symlink():
        check_own(path, is_directory=True)
        _remove(path, wipe)
    elif os.path.lexists(path):
        _unlink(path, wipe)


def _remove(path: Path, wipe: bool) -> None:
    for each in sorted(path.iterdir()):
        if each.is_dir() and not each.is_symlink():
            _remove(each, wipe)
        else:
            _unlink(each, wipe)
    os.rmdir(path)


def _unlink(path: Path, wipe: bool) -> None:
    if wipe and (path.name != "rows.mdb" or _is_begun(path) or not has_readers(path)):
        _wipe(path)
    os.unlink(path)


def _is_begun(path: Path) -> bool:
    """Whether a wipe was cut short: then the file had no reader (N2), and LMDB can no longer report its readers."""
    with path.open("rb") as file:
        return not any(file.read(4096))


def _wipe(path: Path) -> None:
    fd = open_file(path)
    try:
        overwrite(fd)
    finally:
        os.close(fd)


def overwrite(fd: int) -> None:
    """Write zeros over a whole file, and sync it."""
    at, size = 0, os.fstat(fd).st_size
    while at < size:
        at += os.pwrite(fd, memoryview(_ZEROS)[: size - at], at)
    os.fdatasync(fd)


def reuse_spare(top: Path, fresh: Path, on_empty: str) -> None:
    """
    Put the first pages of a fresh file over the spare one, if there is one, and give it the fresh one's name.

    It is taken away first: the disposal of another generation may put its own file there at any moment.
    """
    spare = fresh.with_name(SPARE)
    try:
        os.rename(top / SPARE, spare)
    except FileNotFoundError:
        return
    content = fresh.read_bytes()
    fd = open_file(spare)
    try:
        view = memoryview(content)
        at = 0
        while at < len(view):
            at += os.pwrite(fd, view[at:], at)
        if on_empty == "truncate":
            os.ftruncate(fd, len(content))
        os.fdatasync(fd)
    finally:
        os.close(fd)
    os.rename(spare, fresh)
    sync_directory(top)
    sync_directory(fresh.parent)
