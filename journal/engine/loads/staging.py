"""
Where the parts of loads wait until they are committed: files beside the journals.

    _loads/<id>/<part>     part files (core.loads.blocks), as far as they have come

Nothing here is synced: a load that was not committed does not outlive the process that has the store.

H1  What is left of loads is removed when the store is opened, and when it is closed.
H2  A load that had no call for SILENCE_MS is removed. So is one that was refused: what is wrong with it will not change.
H3  One caller at a time commits a load. The result of a committed load is remembered for a while, for callers that retry.
H4  The number of loads, of their parts and of all bytes has a limit.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from journal.core.limits import STAGED_BYTES_MAX, STAGED_LOADS_MAX, STAGED_PARTS_MAX
from journal.core.values import Loaded
from journal.engine.files.layout import LOADS
from journal.engine.files.posix import make_directory, open_file, remove_tree, storage_error, write_all
from journal.engine.runtime.background import Keeper
from journal.errors import Busy, Invalid, NotFound, Refused, StoreClosed

log = logging.getLogger("journal.staging")

SILENCE_MS = 3_600_000
LOOK_S = 600.0
REMEMBERED_MAX = 64


class StagedPart(os.PathLike[str]):
    """The file of a part. Errors show its name only: they do not disclose its path."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return str(self._path)

    def __str__(self) -> str:
        return f"the part {self._path.name}"


class _Staged:
    """One load."""

    def __init__(self, journal: str, directory: Path, now: int) -> None:
        self.journal = journal
        self.directory = directory
        self.heard = now
        self.lock = threading.Lock()
        """Held while a piece is written, and during the commit."""
        self.sizes: dict[str, int] = {}
        self.is_committing = self.is_gone = False


class StagedLoads:
    """The loads of one store that are under way. For any thread."""

    def __init__(self, store: Path, now: Callable[[], int], keeper: Keeper) -> None:
        self._top = store / LOADS
        self._now = now
        self._keeper = keeper
        self._lock = threading.Lock()
        self._loads: dict[str, _Staged] = {}
        self._committed: dict[str, tuple[str, Loaded]] = {}
        self._bytes = 0
        self._is_closed = False
        self._is_looking = False

    def begin(self, journal: str) -> str:
        """Begin a load of a journal; its id."""
        self.look()
        with self._lock:
            if self._is_closed:
                raise StoreClosed("the store is closed")
            if len(self._loads) >= STAGED_LOADS_MAX:
                raise Busy(f"{STAGED_LOADS_MAX} loads are under way: commit or abort some of them first")
            load = secrets.token_hex(16)
            make_directory(self._top)
            directory = self._top / load
            make_directory(directory)
            self._loads[load] = _Staged(journal, directory, self._now())
            if not self._is_looking:
                self._is_looking = True
                self._keeper.after(LOOK_S, self._look_later)
        return load

    def take(self, journal: str, load: str, part: str, at: int, piece: bytes) -> int:
        """
        Take a piece of a part that begins at this byte, or has come before; how many bytes the part has now.

        An empty piece changes nothing: with it a caller checks whether it may begin a part.
        """
        with self._staged(journal, load) as staged:
            if part not in staged.sizes and len(staged.sizes) >= STAGED_PARTS_MAX:
                raise Busy(f"the load has {STAGED_PARTS_MAX} parts: make larger ones")
            size = staged.sizes.get(part, 0)
            if not piece:
                return size
            if not 0 <= at <= size:
                raise Invalid(
                    f"the part {part} has {size} bytes, and the piece begins at {at}: send what is missing first"
                )
            new = max(0, at + len(piece) - size)
            with self._lock:
                if self._bytes + new > STAGED_BYTES_MAX:
                    raise Busy(
                        f"the loads under way have {self._bytes} bytes, {STAGED_BYTES_MAX} at most: commit or abort some first"
                    )
                self._bytes += new
            try:
                self._write(staged.directory / part, part, at, piece, size)
            except BaseException:
                with self._lock:
                    self._bytes -= new
                raise
            staged.sizes[part] = size + new
            return size + new

    @staticmethod
    def _write(path: Path, part: str, at: int, piece: bytes, size: int) -> None:
        try:
            fd = open_file(path, os.O_RDWR if size else os.O_RDWR | os.O_CREAT)
            try:
                known = os.pread(fd, min(len(piece), size - at), at) if at < size else b""
                if known != piece[: len(known)]:
                    raise Invalid(
                        f"the part {part} has other bytes there already: give each attempt to write a part its own name"
                    )
                write_all(fd, memoryview(piece)[len(known) :], size)
            finally:
                os.close(fd)
        except OSError as e:
            raise storage_error(e, f"cannot keep the part {part} of a load") from e

    def committed(self, journal: str, load: str) -> Loaded | None:
        """What a load came to that was committed lately (H3)."""
        name, loaded = self._committed.get(load, ("", None))
        return loaded if name == journal else None

    def commit(self, journal: str, load: str, parts: list[str], make: Callable[[list[StagedPart]], Loaded]) -> Loaded:
        """Have the parts of a load loaded; it is gone then, also when it is refused (H2)."""
        with self._staged(journal, load) as staged:
            missing = [part for part in parts if part not in staged.sizes]
            if missing:
                raise NotFound(f"the load {load} has no part {missing[0]!r}: nothing was changed")
            staged.is_committing = True
            try:
                loaded = make([StagedPart(staged.directory / part) for part in parts])
            except (Invalid, Refused):
                self._remove(load, staged)
                raise
            finally:
                staged.is_committing = False
            self._remove(load, staged)
            with self._lock:
                self._committed[load] = journal, loaded
                if len(self._committed) > REMEMBERED_MAX:
                    del self._committed[next(iter(self._committed))]
        return loaded

    def abort(self, journal: str, load: str) -> bool:
        """Give a load up; whether there was one."""
        try:
            with self._staged(journal, load) as staged:
                self._remove(load, staged)
        except NotFound:
            return False
        return True

    def drop(self, journal: str) -> None:
        """A journal is dropped, and what was on its way there."""
        for load, staged in list(self._loads.items()):
            if staged.journal == journal:
                self.abort(journal, load)

    @contextmanager
    def _staged(self, journal: str, load: str) -> Iterator[_Staged]:
        staged = self._loads.get(load)
        if staged is None or staged.journal != journal:
            raise _unknown(load)
        if staged.is_committing:
            raise Busy(f"the load {load} is being committed: wait for what it comes to")
        with staged.lock:
            if staged.is_gone:
                raise _unknown(load)
            staged.heard = self._now()
            yield staged
            staged.heard = self._now()

    def _remove(self, load: str, staged: _Staged) -> None:
        """Its files go; its lock is held."""
        staged.is_gone = True
        with self._lock:
            self._loads.pop(load, None)
            self._bytes -= sum(staged.sizes.values())
        _remove_tree(staged.directory)

    def look(self) -> None:
        """Remove the loads that had no call for SILENCE_MS (H2)."""
        for load, staged in list(self._loads.items()):
            if self._now() - staged.heard >= SILENCE_MS and staged.lock.acquire(blocking=False):
                try:
                    if not staged.is_gone:
                        log.warning("load_given_up journal=%s load=%s", staged.journal, load)
                        self._remove(load, staged)
                finally:
                    staged.lock.release()

    def _look_later(self) -> None:
        self.look()
        with self._lock:
            self._is_looking = bool(self._loads) and not self._is_closed
            if self._is_looking:
                self._keeper.after(LOOK_S, self._look_later)

    def close(self) -> None:
        """The store is closed: nothing is under way any more (H1)."""
        with self._lock:
            self._is_closed = True
            is_used = bool(self._loads) or self._is_looking
            loads = list(self._loads.items())
        for load, staged in loads:
            with staged.lock:
                if not staged.is_gone:
                    self._remove(load, staged)
        if is_used:
            _remove_tree(self._top)


def sweep_loads(store: Path) -> None:
    """Remove what a crash left of loads (H1)."""
    if os.path.lexists(store / LOADS):
        remove_tree(store / LOADS)


def _remove_tree(path: Path) -> None:
    try:
        if path.exists():
            remove_tree(path)
    except OSError as e:
        log.warning("load_not_removed path=%s error=%s", path, e)  # the next open does it


def _unknown(load: str) -> NotFound:
    return NotFound(
        f"there is no load {load}: it was committed, aborted, or given up after an hour of silence; begin another one"
    )
