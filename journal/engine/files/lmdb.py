"""
LMDB files: the only module that imports lmdb. Opens them by the rules below, and translates its errors.

D1  One thread (the keeper) opens, begins, commits and closes; other threads use the open transaction under the journal's lock.
D2  Before LMDB maps a file, its size and its two meta pages are looked at, and the whole file is compared with the
    digest of its last clean close (or walked, when it is small): LMDB trusts its pages, and a bad one kills the process.
D3  A commit syncs the data, not the meta page: a power cut loses at most the last commit, and the log goes back further.
D4  The lock file is mapped and written: on a full disk a hole in it would kill the process. It has its room before it is
    opened.
D5  A sync that failed is final, also that of a commit. All earlier commits are durable before one begins, so a commit
    that fails in front of its meta page can have lost its own pages only, which nothing refers to: it is undone, and
    StoreFull when the disk had no room. One that fails in its meta page leaves an environment that refuses to go on.
D6  After a sync that failed the cache may call meta pages clean that the disk does not have (other pages that they refer
    to are synced before them): those of a file that was not closed cleanly are written once more before it is opened.
"""

from __future__ import annotations

import errno
import logging
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from zlib import crc32

import lmdb
import lmdb.verify

from journal.engine.files.posix import (
    FULL,
    UNKNOWN,
    check_own,
    durable_names,
    open_file,
    storage_error,
    sync_file,
    write_all,
)
from journal.errors import StorageError, StoreDamaged, StoreFailed, StoreFull, StoreLocked

log = logging.getLogger("journal.lmdbfile")

MAP_BYTES = 16 << 30
PAGE_BYTES_MIN, PAGE_BYTES_MAX = 512, 1 << 16
"""A file has the pages of the system that made it: 4 KiB on most, 16 KiB or 64 KiB (then LMDB takes 32) on some of ARM's."""
READERS_MAX = 1024
LOCK_BYTES = 192 + 64 * (READERS_MAX - 1)
"""The header with the first reader, and a cache line for each of the others."""
WALK_BYTES_MAX = 4 << 20
"""lmdb.verify walks 66 MB/s: a file that was not closed cleanly is walked on open only when that is quick."""
DIGEST_BYTES_MAX = 4 << 30
ROOM_BYTES = 4 << 20
"""What a commit is taken to need when its size is not known."""
_MAGIC = 0xBEEFC0DE
_META_BYTES = 192
"""What is used of a first page."""
_CHUNK = 1 << 20
_PAGE_HEAD = struct.Struct("=10xHHHH")
"""Of a page: its flags, where its free room begins and ends, and the place of its first node."""
_NODE = struct.Struct("=HHHH")
"""Of a node: the size of its data (low, high), its flags, the size of its key, which follows."""
_LEAF = 0x02


LmdbError = lmdb.Error


def translate(error: lmdb.Error, path: Path, doing: str, room: int = ROOM_BYTES) -> StorageError:
    """The error of ours for one of LMDB's; `room` is what was to be written."""
    code = getattr(error, "code", None)
    if isinstance(error, lmdb.MapFullError):
        return StoreFull(f"{doing} {path}: the map is full; open the store with a larger map_bytes")
    if isinstance(error, (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, lmdb.VersionMismatchError)):
        return StoreDamaged(f"{doing} {path}: {error}. Run `journal check`, or restore the store from a copy")
    if code == errno.EIO and not _has_room(path, room):  # LMDB reports a write that was cut short so, too
        code = errno.ENOSPC
    if code in FULL:
        return StoreFull(f"{doing} {path}: {error}. Nothing was changed; {FULL[code]} and try again")
    return StoreFailed(f"{doing} {path}: {error}. {UNKNOWN}")


def _has_room(path: Path, room: int) -> bool:
    """Whether the disk takes so many bytes behind the end of a file: asked of one without a name."""
    try:
        fd = os.open(path.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as e:
        if e.errno in FULL:
            return False
        found = os.statvfs(path.parent)  # a file system that makes none
        return found.f_bavail * found.f_frsize >= room
    try:
        os.posix_fallocate(fd, path.stat().st_size, room)
    except OSError as e:
        return e.errno not in FULL
    finally:
        os.close(fd)
    return True


class LmdbFile:
    """One LMDB environment of ours with its sub-databases, and the write transaction that is open on it."""

    def __init__(
        self,
        path: Path,
        names: Iterable[bytes],
        *,
        map_bytes: int = MAP_BYTES,
        readonly: bool = False,
        is_durable: bool = False,
    ) -> None:
        self.path = path
        self.map_bytes = map_bytes
        self._is_durable = is_durable
        """Whether all that was committed is (D5); of a file that was not closed cleanly it is not known."""
        if not readonly:
            _allocate_lock_file(path)
        try:
            self.env = lmdb.open(
                str(path), subdir=False, lib_version=0, map_size=map_bytes, max_dbs=16, max_readers=READERS_MAX, mode=0o600,
                max_spare_txns=0, writemap=False, lock=True, metasync=False, readonly=readonly, create=not readonly,
            )  # fmt: skip
        except lmdb.Error as e:
            if "already open in this process" in str(e):
                raise StoreLocked(f"{path} is open in this process already: use the store that has it") from e
            raise translate(e, path, "cannot open") from e
        try:
            if not readonly:
                for name in (path, path.with_name(path.name + "-lock")):
                    os.chmod(name, 0o600)  # whatever the umask; by name, since closing a lock file drops its locks
            # They are all made in one commit: one that is missing from a file that has others was damaged, and would be empty.
            is_fresh = not self.env.stat()["entries"]
            self.databases = {name: self.env.open_db(name, create=is_fresh and not readonly) for name in names}
            self.txn: lmdb.Transaction[bytes] = self.env.begin(write=not readonly)
            self.page_bytes = int(self.env.stat()["psize"])
        except lmdb.Error as e:
            self.env.close()
            raise translate(e, path, "cannot open") from e

    def commit(self, room: int = ROOM_BYTES) -> None:
        """Commit what is open, some `room` bytes, and begin anew. After StoreFull nothing of it is stored and a new one is open (D5)."""
        if not self._is_durable:
            self.sync()
        try:
            self.txn.commit()
        except lmdb.Error as e:
            error = translate(e, self.path, "cannot commit to", room)
            if isinstance(error, StoreFull):
                self._begin()
            raise error from e
        self._is_durable = False
        self._begin()

    def _begin(self) -> None:
        try:
            self.txn = self.env.begin(write=True)
        except lmdb.Error as e:
            raise StoreFailed(f"cannot go on with {self.path}: {e}. Close the store and open it again") from e

    def restart(self) -> None:
        """Undo what is open and begin anew."""
        self.txn.abort()
        self._begin()

    def renew(self) -> None:
        """For a reader: end the read transaction and begin one on what is committed now."""
        self.txn.abort()
        self.txn = self.begin()

    def rest(self) -> None:
        """For a reader: end the read transaction, which keeps pages from being used again."""
        self.txn.abort()

    def used_bytes(self) -> int:
        """How much of the map is in use."""
        return int(self.env.info()["last_pgno"] + 1) * self.page_bytes

    def sync(self) -> None:
        """Make the last commit durable, its meta page included; an error is final (D5)."""
        try:
            self.env.sync(True)
        except lmdb.Error as e:
            raise StoreFailed(f"cannot sync {self.path}: {e}. {UNKNOWN}") from e
        self._is_durable = True

    def begin(self) -> lmdb.Transaction[bytes]:
        """A read transaction over what is committed now; it may be used and ended on any thread, one at a time."""
        try:
            return self.env.begin()
        except lmdb.Error as e:
            raise translate(e, self.path, "cannot read") from e

    def last_commit(self) -> int:
        """The number of the last committed transaction, of any process."""
        return int(self.env.info()["last_txnid"])

    def copy_to(self, fd: int, txn: lmdb.Transaction[bytes], target: Path) -> None:
        """Write all that a read transaction sees to an empty file, without the pages that are free."""
        # Into a descriptor of ours: `copy` would write past the page cache, which takes twice as long and has readers
        # fetch all pages from the disk again (240 MB: 0.21 s against 0.09 s).
        try:
            self.env.copyfd(fd, compact=True, txn=txn)
        except lmdb.Error as e:
            raise _not_copied(e, target, f"cannot copy {self.path} to") from e

    def abandon(self) -> None:
        """Undo what is open and close; after a failed commit there is nothing to undo."""
        try:
            self.txn.abort()
        except lmdb.Error as e:
            log.warning("abort_failed path=%s error=%s", self.path, e)
        self.env.close()


class LmdbCopy:
    """A copy that has no writer any more, opened for reading; without a lock file, so that it can lie anywhere."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.env = lmdb.open(
                str(path), subdir=False, lib_version=0, max_dbs=16, readonly=True, lock=False, create=False, max_spare_txns=0,
            )  # fmt: skip
        except lmdb.Error as e:
            raise translate(e, path, "cannot open") from e
        try:
            self.entries, self.leases = (self.env.open_db(name, create=False) for name in (b"entries", b"leases"))
        except lmdb.Error as e:
            self.env.close()
            raise translate(e, path, "cannot open") from e

    def close(self) -> None:
        """Close it; transactions that are open end."""
        self.env.close()


def peeked_keys(path: Path, key_bytes: int, count: int) -> list[tuple[bytes, int]]:
    """
    Keys of this size from leaf pages all over a copy, one of each page that is looked at, with the number of keys of that page; at
    most `count`. For estimates: what looks like such a page is taken for one, whichever sub-database it is of.
    """
    found: list[tuple[bytes, int]] = []
    fd = open_file(path, os.O_RDONLY)
    try:
        page_bytes = page_bytes_of(fd, path)
        pages = os.fstat(fd).st_size // page_bytes
        for number in range(2, pages, max(1, pages // count)):
            page = os.pread(fd, page_bytes, number * page_bytes)
            flags, lower, _, node = _PAGE_HEAD.unpack_from(page)
            key_at = node + _NODE.size
            is_leaf = flags == _LEAF and lower >= _PAGE_HEAD.size and key_at + key_bytes <= page_bytes
            if is_leaf and _NODE.unpack_from(page, node)[3] == key_bytes:
                found.append((page[key_at : key_at + key_bytes], (lower - _PAGE_HEAD.size) // 2 + 1))
    finally:
        os.close(fd)
    return found


def write_copy(path: Path, rows: dict[bytes, Iterator[list[tuple[bytes, bytes]]]], map_bytes: int) -> None:
    """Make a file for LmdbCopy of rows by sub-database, each in the order of its keys; nothing is synced."""
    try:
        with lmdb.open(
            str(path), subdir=False, lib_version=0, map_size=map_bytes, max_dbs=16, mode=0o600, lock=False, sync=False,
        ) as env:  # fmt: skip
            os.chmod(path, 0o600)
            databases = {name: env.open_db(name) for name in rows}
            with env.begin(write=True) as txn:
                for name, pages in rows.items():
                    cursor = txn.cursor(db=databases[name])
                    for page in pages:
                        consumed, added = cursor.putmulti(page, append=True)
                        if not consumed == added == len(page):
                            raise StoreDamaged(f"{path}: rows of {name.decode()} are not in order, or there twice")
    except lmdb.Error as e:
        raise _not_copied(e, path, "cannot write") from e


def _not_copied(error: lmdb.Error, path: Path, doing: str) -> StorageError:
    """No journal rests on a copy: one that could not be written is no failure of the store."""
    told = translate(error, path, doing)
    return StorageError(f"{doing} {path}: {error}") if isinstance(told, StoreFailed) else told


def _allocate_lock_file(path: Path) -> None:
    """Give the lock file its room (D4); what is in it stays as it is."""
    lock = path.with_name(path.name + "-lock")
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, LOCK_BYTES)
        finally:
            os.close(fd)
    except OSError as e:
        if e.errno in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            return  # a file system that cannot: then it is not known before
        raise storage_error(e, f"cannot prepare {lock}") from e


def create(path: Path, names: Iterable[bytes], *, slack_bytes: int = 0) -> None:
    """Make an LMDB file with its sub-databases, and free pages in it; there and durable on return, or not there."""
    made = path.with_name("new.mdb")
    for old in (made, made.with_name("new.mdb-lock")):
        if os.path.lexists(old):
            check_own(old, is_directory=False)
            os.unlink(old)
    file = LmdbFile(made, names, is_durable=True)  # nothing refers to it yet
    try:
        file.commit()
        if slack_bytes:
            first = next(iter(file.databases.values()))
            file.txn.put(b"slack", bytes(slack_bytes), db=first)
            file.commit()
            file.txn.delete(b"slack", db=first)
            file.commit()
        file.sync()
    finally:
        file.abandon()
    os.unlink(made.with_name("new.mdb-lock"))
    with durable_names(path.parent):
        os.rename(made, path)


def has_readers(path: Path) -> bool:
    """Whether any process has this file open for reading; a file that cannot be looked at has some."""
    if not os.path.lexists(path.with_name(path.name + "-lock")):
        return False
    try:
        env = lmdb.open(
            str(path), subdir=False, lib_version=0, readonly=True, lock=True, max_readers=READERS_MAX, max_dbs=16
        )
    except lmdb.Error as e:
        log.warning("readers_unknown path=%s error=%s", path, e)
        return True
    try:
        env.reader_check()
        return "no active readers" not in env.readers()
    finally:
        env.close()


def check_before_open(path: Path, digest: int | None, *, is_deep: bool = False, is_live: bool = False) -> None:
    """Refuse a file that LMDB would crash on or serve wrong rows from (D2); only its outside when it is in use."""
    for name in (path, path.with_name(path.name + "-lock")):
        if name is path or os.path.lexists(name):
            check_own(name, is_directory=False)
    size = os.stat(path).st_size
    fd = open_file(path, os.O_RDONLY)
    try:
        needed = _needed_bytes(fd, path, size)
        if is_live:
            return
        if digest is not None:
            if file_digest(fd, size) != digest:
                raise StoreDamaged(_name_damage(path))
            return
    finally:
        os.close(fd)
    if is_deep or size <= WALK_BYTES_MAX or size < needed:
        found = walk(path)
        if found:
            raise StoreDamaged(f"{path} is damaged: {found[0]}. Restore the store from a copy")
    fd = open_file(path)
    try:
        if size < needed:
            # Pages at the end that one transaction took and gave back were never written; nothing refers to them.
            os.ftruncate(fd, needed)
        write_all(fd, os.pread(fd, 2 * page_bytes_of(fd, path), 0), 0)  # D6
        sync_file(fd, path)
    finally:
        os.close(fd)


def file_digest(fd: int, size: int) -> int:
    """A CRC-32 over a whole file."""
    crc, at = 0, 0
    while at < size:
        piece = os.pread(fd, _CHUNK, at)
        if not piece:
            break
        crc = crc32(piece, crc)
        at += len(piece)
    return crc


def digest_of(path: Path) -> int | None:
    """The digest of a closed file, or None when it is too large for one, or cannot be read."""
    size = os.stat(path).st_size
    if size > DIGEST_BYTES_MAX:
        return None
    try:
        fd = open_file(path, os.O_RDONLY)
    except OSError as e:
        log.warning("digest_not_made path=%s error=%s", path, e)
        return None
    try:
        return file_digest(fd, size)
    finally:
        os.close(fd)


def walk(path: Path) -> list[str]:
    """What lmdb's own verifier finds wrong in a file; it reads bytes and cannot crash."""
    try:
        problems: list[str] = lmdb.verify.verify(str(path), subdir=False)  # type: ignore[no-untyped-call]
    except (lmdb.verify.VerifyError, OSError) as e:
        return [str(e)]
    return problems


def _name_damage(path: Path) -> str:
    found = walk(path)
    detail = found[0] if found else "a page that is not in use, or a value, has changed"
    return f"{path} is not as it was when the store was closed: {detail}. Restore the store from a copy"


def page_bytes_of(fd: int, path: Path | str) -> int:
    """The size of a file's pages, as the first of them says; a file that does not say it, LMDB does not open either."""
    raw = os.pread(fd, _META_BYTES, 0)
    if len(raw) < _META_BYTES:
        raise StoreDamaged(f"{path} is cut short: it has {len(raw)} bytes, less than its two first pages")
    magic, found = struct.unpack_from("<I20xI", raw, 16)
    if magic != _MAGIC or not PAGE_BYTES_MIN <= found <= PAGE_BYTES_MAX or found & (found - 1):
        raise StoreDamaged(f"{path} has no valid first page: restore the store from a copy")
    return int(found)


def _needed_bytes(fd: int, path: Path, size: int) -> int:
    """How long the file must be for its last page, by its newer meta page."""
    page_bytes = page_bytes_of(fd, path)
    best = -1
    last = 0
    for page in (0, 1):
        raw = os.pread(fd, _META_BYTES, page * page_bytes)
        if len(raw) < _META_BYTES:
            raise StoreDamaged(f"{path} is cut short: it has {size} bytes, less than its two first pages")
        magic, version = struct.unpack_from("<II", raw, 16)
        if magic != _MAGIC or version & 0xFFFFFF != 1:
            continue
        last_page, txn_id = struct.unpack_from("<QQ", raw, 16 + 8 + 8 + 8 + 2 * 48)
        if txn_id > best:
            best, last = txn_id, last_page
    if best < 0:
        raise StoreDamaged(f"{path} has no valid first page: restore the store from a copy")
    return (last + 1) * page_bytes
