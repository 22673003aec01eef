"""
Taking snapshots: read transactions over the rows of all generations, as of one change, and copies of what they see.

The owner of a store makes a checkpoint and begins them on the keeper, where nothing can be committed in between. A look
(readonly=True) begins them beside the owner, which may be in the middle of a checkpoint: older generations are committed
first, the active one last.

H1  The transactions of a look are of one change if the active one says so of the others (commit_parts Q2). Else they are begun again.
H2  Files are copied without any lock: callers go on. Meanwhile no rows are given up (`pins`), and the journal is not
    closed before the copies that are under way are done.
H3  Of a merged journal only its own rows are written, without the name in front.
H4  A copy does not fill the disk: the log of the journal and other programs need room there.
H5  What was copied before is not copied again: the same commit of the same file, of which the caller names an unchanged copy
    (`known`). The caller keeps that copy for as long as the snapshot is used.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Protocol

import msgpack

from journal.core.log.cursor import cursor_of
from journal.core.schema.schema import Schema
from journal.engine.files.lmdb import digest_of, write_copy
from journal.engine.files.posix import open_file, storage_error
from journal.engine.runtime.background import Keeper
from journal.engine.runtime.clock import EngineTime
from journal.engine.runtime.host import Host
from journal.engine.runtime.timed_steps import TimedHost, catch_up
from journal.engine.snapshots.directories import Room
from journal.engine.snapshots.reader import Copied, is_there, note
from journal.engine.snapshots.snapshot import EngineSnapshot
from journal.engine.state import commit_parts
from journal.engine.state.file import GenerationRows
from journal.engine.state.reader import StoredState
from journal.errors import StorageError, StoreClosed, StoreFull

LOOK_S = 10.0
"""So long a look tries to begin transactions of one change (readonly)."""
PAUSE_S = 0.002
PAGE = 1000
RESERVE_BYTES = 16 << 20
"""Left free on the disk: what a log is about to prepare, and more."""


class Snapshots:
    """The snapshots of one journal, or of all merged ones: those being made, and those that lie in the store."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way = 0
        self._is_closed = False
        self._open: set[EngineSnapshot] = set()

    def begin(self) -> None:
        """One is being made."""
        with self._changed:
            if self._is_closed:
                raise StoreClosed("the store is closed")
            self._under_way += 1

    def end(self) -> None:
        """It is made, or given up."""
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    def keep(self, shot: EngineSnapshot) -> None:
        """It is to be closed with the store."""
        with self._changed:
            self._open.add(shot)

    def forget(self, shot: EngineSnapshot) -> None:
        """It is closed."""
        with self._changed:
            self._open.discard(shot)

    def close(self) -> None:
        """Wait for those that are being made (H2), and close those that lie in the store."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._under_way)
            left = list(self._open)
        for shot in left:
            shot.close()


class HasSchemas(Protocol):
    """The generations of a journal."""

    def union(self) -> Schema | None: ...


class CopiedHost(Host, Protocol):
    """A journal whose rows are copied."""

    keeper: Keeper
    time: EngineTime

    def checkpoint(self) -> None: ...
    def rows_now(self) -> list[GenerationRows]: ...
    def pin_rows(self) -> None: ...
    def unpin_rows(self) -> None: ...


class SnapshotHost(CopiedHost, TimedHost, Protocol):
    """A journal that snapshots are taken of."""

    top: Path
    is_writable: bool
    snapshots: Snapshots

    @property
    def state(self) -> StoredState: ...
    @property
    def generations(self) -> HasSchemas: ...
    def wipes(self) -> bool: ...
    def begin_copy(self) -> None: ...
    def end_copy(self) -> None: ...


def take(p: SnapshotHost, directory: str | os.PathLike[str] | None, known: Iterable[Copied] = ()) -> EngineSnapshot:
    """
    A snapshot of a journal, as of now; a look's as of the last checkpoint of the owner.

    known     copies that were made before, for those that are not made again (H5)
    """
    if p.trouble is not None:
        raise p.trouble
    room = Room.make(p.top.parent, directory, wipe=p.wipes())
    snapshots = p.snapshots
    try:
        begun = p.keeper.call(lambda: _begin(p)) if p.is_writable else _begin_look(p)
        try:
            by_source = {copy.source: copy for copy in known if copy.source}
            made = {reader: by_source.get(reader.source) for reader in begun.readers if reader.size}
            made = {reader: copy if copy is not None and is_there(copy) else None for reader, copy in made.items()}
            _check_room(room.path, sum(reader.bytes for reader, copy in made.items() if copy is None))
            copies = tuple(reader.copy_to(room.path) if copy is None else copy for reader, copy in made.items())
            shot = EngineSnapshot(p.name, begun.cursor, begun.taken, begun.schema, copies, room, snapshots.forget)
            if directory is None:
                snapshots.keep(shot)
            return shot
        finally:
            begun.end()
    except BaseException:
        room.remove()
        raise


def _check_room(path: Path, needed: int) -> None:
    """Refuse before the disk is full (H4)."""
    try:
        found = os.statvfs(path)
    except OSError as e:
        raise storage_error(e, f"cannot look at the disk of {path}") from e
    free = found.f_bavail * found.f_frsize
    if free < needed + RESERVE_BYTES:
        raise StoreFull(
            f"a snapshot takes up to {needed} bytes, and {free} are free at {path}, of which {RESERVE_BYTES} are left for others: "
            "free some room, close other snapshots, or give a directory on another disk"
        )


class _Begun:
    """Transactions over all generations, of one change. Begun under the lock, ended on any thread."""

    def __init__(self, p: SnapshotHost, readers: list[_Reader], schema: Schema | None) -> None:
        self._p = p
        self.readers = readers
        self.schema = schema
        self.taken = p.time.now()
        self.cursor = cursor_of(readers[-1].file.applied_at() - 1)
        p.begin_copy()

    def end(self) -> None:
        for reader in self.readers:
            reader.end()
        with self._p.lock:
            self._p.end_copy()


def _begin(p: SnapshotHost) -> _Begun:
    """The owner's; on the keeper."""
    catch_up(p)  # what has expired goes first, and leases that are over end
    p.checkpoint()
    readers = [_Reader(rows) for rows in p.rows_now()]
    with p.lock:
        return _begun(p, readers)


def _begun(p: SnapshotHost, readers: list[_Reader]) -> _Begun:
    """Under the lock. The store may be closing: then no transaction is left."""
    try:
        return _Begun(p, readers, p.generations.union())
    except BaseException:
        for reader in readers:
            reader.end()
        raise


def _begin_look(p: SnapshotHost) -> _Begun:
    """Those of a look (H1)."""
    deadline = monotonic() + LOOK_S
    pause = threading.Event()
    while True:
        with p.lock:
            p.enter()
            readers = [_Reader(rows) for rows in p.state.generations]  # the active one last
            if commit_parts.difference([reader.file for reader in readers]) is None:
                return _begun(p, readers)
            for reader in readers:
                reader.end()
        if monotonic() >= deadline:
            raise StorageError(
                f"the rows of journal {p.name} have been in the middle of a checkpoint for {LOOK_S:.0f} s: its owner is "
                "very busy, or has crashed there. Try again; if no process owns the store, open it once without readonly"
            )
        pause.wait(PAUSE_S)


class _Reader:
    """A read transaction over the rows of one generation."""

    def __init__(self, rows: GenerationRows) -> None:
        self.order = rows.order
        self._file = rows.file
        self._prefix = rows.prefix
        self._txn = rows.file.begin()
        self.file = commit_parts.CommittedFile(rows.order, rows.file.path, self._get)
        self.size = self._count()
        entries = int(self._txn.stat(self._file.databases[b"entries"])["entries"])
        self.bytes = self._file.used_bytes() * self.size // max(entries, 1)
        """What a copy takes, at most; of a merged journal's rows about."""
        self.used_bytes = self._file.used_bytes()
        self.source = self._source()

    def _source(self) -> tuple[int | str, ...]:
        """What is copied (H5): a commit has a number of its own, unless the file was put back to what it was, which changes its dates."""
        try:
            found = os.stat(self._file.path)
        except OSError:
            return ()  # the generation is being given up
        dates = found.st_mtime_ns, found.st_ctime_ns
        return found.st_dev, found.st_ino, found.st_size, *dates, self._txn.id(), self._prefix.hex()

    def _count(self) -> int:
        """How many entries; of a merged journal's as it has counted them."""
        if self._prefix:
            kept = self._get(self._prefix + b"counts")
            return 0 if kept is None else int(msgpack.unpackb(kept)[0])
        return int(self._txn.stat(self._file.databases[b"entries"])["entries"])

    def _get(self, name: bytes) -> bytes | None:
        value: bytes | None = self._txn.get(name, db=self._file.databases[b"meta"])
        return value

    def copy_to(self, directory: Path) -> Copied:
        """Copy what it sees to a file."""
        path = directory / f"{self.order:06d}.mdb"
        try:
            if self._prefix:
                write_copy(path, {name: self._own(name) for name in (b"entries", b"leases")}, self._file.map_bytes)
            else:
                self.write_to(path)
            digest = digest_of(path)
        except OSError as e:
            raise storage_error(e, f"cannot copy rows to {path}") from e
        return note(Copied(str(path), digest, self.size, source=self.source))

    def write_to(self, path: Path) -> None:
        """Write all that it sees to a new file."""
        fd = open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            self._file.copy_to(fd, self._txn, path)
        finally:
            os.close(fd)

    def _own(self, name: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
        """The rows of a merged journal in a sub-database, without the name (H3)."""
        cursor = self._txn.cursor(db=self._file.databases[name])
        prefix = self._prefix
        if not cursor.set_range(prefix):
            return
        rows = cursor.iternext()
        while page := list(islice(rows, PAGE)):
            own = [(key[len(prefix) :], value) for key, value in page if key.startswith(prefix)]
            yield own
            if len(own) < len(page):
                return

    def end(self) -> None:
        """End the transaction."""
        self._txn.abort()
