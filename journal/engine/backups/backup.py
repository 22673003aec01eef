"""
Backups of a store that is in use: the files of all journals as of one cursor each, while callers go on.

B1  Each journal is copied as of one change, all merged ones together as of one, and the catalog as of all of these: on the keeper a
    checkpoint of each is made and read transactions are begun, and nothing is committed, rotated or given up in between. What was
    acknowledged before the call is in the backup.
B2  Meanwhile no rows are given up (`pins`), no segment goes that is to be copied (Retention.pins), and no journal is closed or dropped
    before the copies are made.
B3  The rows of a backup have applied all of its log. So of the log it has what followers hold, and the segment that goes on. What
    consumers have acknowledged is of a moment before the checkpoint, and the log is held from there on.
B4  Every new file is read once more: rows and records by their checksums; then all of them by the digests of the manifest.
B5  A file that did not change since the last backup there is not copied: it gets another link, or is copied from that one.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from journal.core.entry.keys import PRIMARY_BYTES
from journal.core.limits import NEVER
from journal.core.log.cursor import base_of, cursor_of
from journal.core.settings import MERGED
from journal.core.snapshot_blocks import verify as verify_rows
from journal.core.values import Backup
from journal.engine.backups import manifest as manifests
from journal.engine.backups.manifest import (
    NEW,
    STORE,
    BackupManifest,
    CopiedFile,
    copy_bytes,
    is_whole,
    numbered,
    sha256_of,
)
from journal.engine.feed.offset_log import OffsetLog
from journal.engine.files.lmdb import LmdbCopy, LmdbFile, digest_of
from journal.engine.files.posix import TOKENS, open_file, remove_tree, storage_error, sync_directory, write_zeros
from journal.engine.log.reader import SEGMENT_BYTES_FIRST, RecordPlace, list_segments, records, segment_path
from journal.engine.log.writer import RESERVE
from journal.engine.snapshots.take import RESERVE_BYTES, _Reader
from journal.errors import Busy, Invalid, StorageError, StoreDamaged, StoreFull
from journal.shield import give_way

if TYPE_CHECKING:
    from journal.engine.own_pipeline import OwnPipeline
    from journal.engine.store import EngineStore

log = logging.getLogger("journal.backups")

PAGE = 1000
Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in all."""
_Write = Callable[[Path], None]


class _Copy(NamedTuple):
    """A file that is to be in the backup."""

    path: str
    bytes: int
    source: list[Any]
    """What names its content (manifest.File)."""
    write: _Write
    """Makes the copy, not synced."""
    check: _Write
    """Reads the copy (B4)."""


def make_backup(store: EngineStore, dest: str | os.PathLike[str], progress: Progress | None) -> Backup:
    """Copy a store to a directory while callers go on working (B1)."""
    path = Path(dest).absolute()
    try:
        with _held(path, store.path):
            return _Making(store, path, progress or (lambda done, total: None)).run()
    except OSError as e:
        raise storage_error(e, f"cannot make a backup in {path}") from e


@contextmanager
def _held(dest: Path, store: Path) -> Iterator[None]:
    """The directory of backups, made if it is not there, and for us alone."""
    if dest == store or store in dest.parents or dest in store.parents:
        raise Invalid(f"{dest} and the store {store} lie in each other: choose another directory for backups")
    os.makedirs(dest, mode=0o700, exist_ok=True)
    for name in os.listdir(dest):
        if manifests.NAME.fullmatch(name.removesuffix(NEW)) is None:
            raise Invalid(f"{dest} is neither empty nor a directory of backups: there is {name}. Choose another one")
    fd = os.open(dest, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"another backup is being made in {dest}: wait for it, or choose another directory") from None
        yield
    finally:
        os.close(fd)


class _Making:
    """One backup."""

    def __init__(self, store: EngineStore, dest: Path, progress: Progress) -> None:
        self._store = store
        self._dest = dest
        self._progress = progress
        self._done = self._total = 0
        older = numbered(dest)
        self._older = [path for _, path in older]
        self._path = dest / f"backup-{older[-1][0] + 1 if older else 1:06d}"
        self._new = self._path.with_name(self._path.name + NEW)
        self._before = self._last(store.catalog.identity)

    def _last(self, identity: str) -> BackupManifest | None:
        """The manifest of the last backup there, which must be of this store."""
        if not self._older:
            return None
        before = manifests.read(self._older[-1])
        if before.store != identity:
            raise Invalid(f"{self._dest} has backups of another store, {before.path}: choose another directory")
        return before

    def run(self) -> Backup:
        """Make it, name it, remove the older ones (manifest K1)."""
        for name in os.listdir(self._dest):
            if name.endswith(NEW):
                remove_tree(self._dest / name)  # cut short
        os.mkdir(self._new, 0o700)
        try:
            with ExitStack() as stack:
                copies, manifest = self._begin(stack)
                copied = self._copy_all(copies, manifest)
            for each in {path.parent for path in (self._new / STORE).rglob("*")} | {self._new}:
                sync_directory(each)
            manifests.write(self._new, manifest)
            manifests.verify(self._new, manifests.read(self._new), self._tick)
            os.rename(self._new, self._path)
            sync_directory(self._dest)
        except BaseException:
            self._give_up()
            raise
        for each in self._older:
            try:
                remove_tree(each)
            except (OSError, StorageError) as e:
                log.warning("backup_not_removed path=%s error=%s", each, e)  # the next one does it
        return manifest.report(self._path, copied)

    def _give_up(self) -> None:
        try:
            if self._new.exists():
                remove_tree(self._new)
        except (OSError, StorageError) as e:
            log.warning("backup_not_removed path=%s error=%s", self._new, e)  # the next one does it

    def _tick(self, size: int) -> None:
        give_way()
        self._done += size
        self._progress(min(self._done, self._total), self._total)

    # -- one moment ---------------------------------------------------------------------------------------------------

    def _begin(self, stack: ExitStack) -> tuple[list[_Copy], BackupManifest]:
        """What is to be copied, pinned until the stack ends (B1, B2)."""
        store = self._store
        with store.still() as pipelines:
            return store.keeper.call(lambda: self._begin_all(pipelines, stack))

    def _begin_all(self, pipelines: list[OwnPipeline], stack: ExitStack) -> tuple[list[_Copy], BackupManifest]:
        """On the keeper."""
        store = self._store
        copies: list[_Copy] = []
        cursors: dict[str, str] = {}
        digests: dict[str, dict[str, int | None]] = {}
        for p in pipelines:
            pinned = _Pinned(p)
            stack.callback(pinned.end)
            digests[p.name] = {}
            copies += [copy._replace(path=f"{p.name}/{copy.path}") for copy in pinned.begin()]
            cursors[p.name] = str(cursor_of(base_of(p.order) + pinned.applied.offset - 1))
        file = store.catalog.file
        txn = file.begin()
        stack.callback(txn.abort)
        write = partial(_write_lmdb, file, txn)
        copies.append(_Copy("catalog/catalog.mdb", file.used_bytes(), [], write, lambda path: None))
        tokens = store.path / TOKENS
        if tokens.exists():
            write = partial(copy_bytes, tokens)
            copies.append(_Copy(TOKENS, os.stat(tokens).st_size, [], write, lambda path: None))
        manifest = BackupManifest(
            store.catalog.identity, str(store.path), store.time.now(), store.catalog.opening, cursors, digests, {}
        )
        return copies, manifest

    # -- copying ------------------------------------------------------------------------------------------------------

    def _copy_all(self, copies: list[_Copy], manifest: BackupManifest) -> list[str]:
        """Make the copies that there are not yet; which these are."""
        kept = {copy.path: file for copy in copies if (file := self._kept(copy)) is not None}
        self._check_room(sum(copy.bytes for copy in copies if copy.path not in kept))
        # Written, read, and all of them read once more.
        self._total = sum(2 * copy.bytes if copy.path in kept else 3 * copy.bytes for copy in copies)
        copied: list[str] = []
        for copy in copies:
            target = self._new / STORE / copy.path
            _make_parents(target, self._new)
            file = kept.get(copy.path)
            if file is None or not self._link(copy.path, file, target):
                copy.write(target)
                _sync(target)
                copy.check(target)
                self._tick(copy.bytes)
                file = CopiedFile(os.stat(target).st_size, sha256_of(target, self._tick), copy.source)
                copied.append(copy.path)
            manifest.files[copy.path] = file
            if copy.path.endswith("/rows.mdb"):
                journal, order, _ = Path(copy.path).parts
                manifest.digests[journal][order] = self._digest(journal, order, copy.path in copied, target)
        return copied

    def _digest(self, journal: str, order: str, is_copied: bool, target: Path) -> int | None:
        if is_copied or self._before is None:
            return digest_of(target)
        return self._before.digests[journal][order]

    def _kept(self, copy: _Copy) -> CopiedFile | None:
        """The same file in the last backup."""
        before = None if self._before is None else self._before.files.get(copy.path)
        return before if before is not None and copy.source and before.source == copy.source else None

    def _link(self, name: str, file: CopiedFile, target: Path) -> bool:
        """Have a file of the last backup here too, if it is as it was (B5)."""
        source = self._older[-1] / STORE / name
        if not is_whole(source, file, self._tick):
            log.warning("backup_file_damaged path=%s", source)
            return False
        try:
            os.link(source, target)
        except OSError:  # a file system without links
            copy_bytes(source, target)
            _sync(target)
        return True

    def _check_room(self, needed: int) -> None:
        found = os.statvfs(self._dest)
        free = found.f_bavail * found.f_frsize
        is_shared = os.stat(self._dest).st_dev == os.stat(self._store.path).st_dev
        if free < needed + (RESERVE_BYTES if is_shared else 0):
            raise StoreFull(f"a backup takes up to {needed} bytes, and {free} are free at {self._dest}: free some room")


class _Pinned:
    """A journal that is being copied, or what merged journals share. Begun on the keeper, ended on any thread."""

    def __init__(self, p: OwnPipeline) -> None:
        self._p = p
        self._readers: list[_Reader] = []
        self._log, self._generations, self._retention = p.log, p.generations, p.retention
        self._consumers, self._checkpoints = p.consumers, p.checkpoints
        with p.lock:
            p.begin_copy()
            self._pin = self._retention.pin()

    @property
    def applied(self) -> RecordPlace:
        """What the copied rows have applied of the log."""
        return self._checkpoints.applied

    def begin(self) -> list[_Copy]:
        """Make a checkpoint; what there is to copy, with paths below the journal's."""
        p, log = self._p, self._log
        with self._consumers.lock:
            consumers = [each.kept() for each in self._consumers.known.values()]  # B3
        with p.lock:
            p.enter()
        p.checkpoint()
        self._readers = [_Reader(rows) for rows in p.rows_now()]
        with p.lock:
            applied, now = self.applied, p.time.now()
        copies = [
            _Copy(
                f"{reader.order:06d}/rows.mdb", reader.used_bytes, _source(reader.file.path, reader.file.applied_at()), reader.write_to,
                partial(_check_rows, is_merged=p.name == MERGED),
            )
            for reader in self._readers
        ]  # fmt: skip
        for kept in self._generations.kept:
            if kept.last is not None and kept.has_log:
                copies += _segments(p.directory(kept.order) / "log", 0, RecordPlace(kept.last + 1, NEVER, 0))
        copies += _segments(log.directory, self._pin - log.base, applied)
        if consumers:
            write = partial(_write_offsets, log.namespace, consumers, now)
            copies.append(_Copy(f"offsets/{0:020d}.log", 0, [], write, lambda path: None))
        return copies

    def end(self) -> None:
        """End the read transactions and unpin the rows and the log."""
        p = self._p
        for reader in self._readers:
            reader.end()
        with p.lock:
            p.end_copy()
            self._retention.unpin(self._pin)


def _source(path: Path, *content: int) -> list[int]:
    """What names the content of a file: which one it is, and how far its content goes (of rows: commit_parts Q1)."""
    found = os.stat(path)
    return [found.st_dev, found.st_ino, *content]


def _segments(directory: Path, kept_from: int, end: RecordPlace) -> list[_Copy]:
    """The segments of a generation's log that hold changes from an offset on, up to an end (B3)."""
    firsts = [first for first in list_segments(directory) if first <= end.segment]
    copies = []
    for first, behind in zip(firsts, [*firsts[1:], end.offset], strict=True):
        path = segment_path(directory, first)
        name = f"{directory.parent.name}/log/{path.name}"
        check = partial(_check_segment, first, behind)
        if first == end.segment:
            size = -(-(end.position + RESERVE + 1) // SEGMENT_BYTES_FIRST) * SEGMENT_BYTES_FIRST
            source = _source(path, end.offset, end.position)
            copies.append(_Copy(name, size, source, partial(_write_segment, path, end.position, size), check))
        elif behind > min(kept_from, end.offset) or behind == end.offset:
            found = os.stat(path)
            source = _source(path, found.st_size, found.st_mtime_ns)
            copies.append(_Copy(name, found.st_size, source, partial(copy_bytes, path), check))
    return copies


def _write_segment(source: Path, position: int, size: int, target: Path) -> None:
    """The segment that goes on: its records so far, and room for more, as it was prepared (writer W2)."""
    copy_bytes(source, target, position)
    fd = open_file(target)
    try:
        write_zeros(fd, position, size)
    finally:
        os.close(fd)


def _write_offsets(namespace: bytes, consumers: list[Any], now: int, target: Path) -> None:
    OffsetLog(target.parent, namespace).write(consumers, (), now)


def _write_lmdb(file: LmdbFile, txn: Any, target: Path) -> None:
    fd = open_file(target, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        file.copy_to(fd, txn, target)
    finally:
        os.close(fd)


def _check_rows(path: Path, *, is_merged: bool) -> None:
    """Every entry by its checksum, and as many keys (B4)."""
    copy = LmdbCopy(path)
    try:
        with copy.env.begin() as txn:
            rows = txn.cursor(db=copy.entries).iternext()
            while page := list(islice(rows, PAGE)):
                keys = [key[-PRIMARY_BYTES:] for key, _ in page] if is_merged else [key for key, _ in page]
                verify_rows(keys, [value for _, value in page])
            found = [
                int(txn.stat(db)["entries"]) for db in (copy.entries, copy.env.open_db(b"keys", txn, create=False))
            ]
    finally:
        copy.close()
    if found[0] != found[1]:
        raise StoreDamaged(f"{path} has {found[0]} entries and {found[1]} keys: run `journal check` on the store")


def _check_segment(first: int, behind: int, path: Path) -> None:
    """All records of a segment, up to the next one (B4)."""
    fd = open_file(path, os.O_RDONLY)
    try:
        end = first
        for place, _, parts in records(fd, RecordPlace(first, first, 0)):
            end = place.offset + parts.changes
    finally:
        os.close(fd)
    if end < behind:
        raise StoreDamaged(
            f"{path} ends at {end}, it should go on to {behind}: run `journal check` on the store, or try again"
        )


def _make_parents(target: Path, top: Path) -> None:
    for each in reversed(target.parents):
        if top in each.parents:
            try:
                os.mkdir(each, 0o700)
            except FileExistsError:
                continue


def _sync(path: Path) -> None:
    fd = open_file(path)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
