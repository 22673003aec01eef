"""
The offset log of one journal: what each feed consumer has acknowledged, in records of the log's own format.

    <journal>/offsets/<first record, 20 digits>.log

A record's key is the namespace (in what merged journals share: the name of the one that is followed), its mode that of
the consumer (copy or sync), its op update, or delete when the consumer was removed; its data is a msgpack array that ends
with a CRC-32, as in the log:

    [format 1, synced, name, [order, offset], [order, offset], [order, first, last, …]]
     synced     the last record of this file that is known to be durable
     name       the consumer; a removal ends here
     cursors    the position (all up to it is acknowledged), then the highest cursor delivered or acknowledged
     runs       what is acknowledged above the position: three numbers for each run of cursors

J1  The last record of a consumer counts. Records are numbered without a gap; the file of the highest number counts.
J2  A file gets its name when it is whole and synced. It is replaced by a shorter one (all that lives, written anew)
    when it has grown; a crash at any step leaves the old one or the new one.
J3  A bad record is a torn tail, and cut, unless another one says that it was durable, or it is the first of its file: then
    it is damage, and an error that names the file.
J4  After a write that was cut short nothing is appended to that file any more, and what there is of it is taken back: the next
    write makes a new one. A sync that failed is StoreFailed.
J5  What is written here names only changes that are durable in the log: the caller has waited for them.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import msgpack

from journal.core.entry.effects import DELETE, UPDATE
from journal.core.log.acks import Run
from journal.core.log.cursor import Cursor
from journal.core.log.record import CHECKED, HEAD, HEAD_BYTES, Record, decode
from journal.core.settings import MERGED
from journal.engine.files.posix import (
    check_own,
    durable_names,
    make_directory,
    open_file,
    storage_error,
    sync_directory,
    sync_file,
    write_all,
)
from journal.engine.log.reader import UNNAMED, fields_of, list_segments, segment_path
from journal.errors import LogDamaged, StorageError

log = logging.getLogger("journal.offsets")

FORMAT = 1
COPY, SYNC = 0, 1
GROWN_BYTES = 1 << 20
GROWN_FACTOR = 4
_MERGED = MERGED.encode()
_U32 = struct.Struct(">I")


class KeptConsumer(NamedTuple):
    """What is kept of one consumer."""

    name: str
    mode: int
    position: Cursor
    high: Cursor
    runs: tuple[Run, ...] = ()


class OffsetLog:
    """Reads and writes the offset log; one caller at a time."""

    def __init__(self, directory: Path, namespace: bytes) -> None:
        self.directory = directory
        self._namespace = namespace
        self._first = -1
        """The number in the file's name; -1: there is no file."""
        self._next = 0
        self._synced = -1
        self._position = 0
        self._live: dict[str, tuple[KeptConsumer, int]] = {}
        """What counts, with the bytes that it takes."""
        self._is_suspect = False
        """The file must not be appended to (J4)."""

    # -- reading ------------------------------------------------------------------------------------------------------

    def load(self, *, is_owner: bool = True) -> list[KeptConsumer]:
        """What is kept of each consumer; the owner cuts a torn tail and removes files that were replaced."""
        self._live.clear()
        self._first, self._next, self._synced, self._position = -1, 0, -1, 0
        if not os.path.lexists(self.directory):
            return []
        check_own(self.directory, is_directory=True)
        files = self._read_last()
        if is_owner:
            self._tidy(files[:-1])
        return [kept for kept, _ in self._live.values()]

    def _read_last(self) -> list[int]:
        """Read the file that counts; all that there are."""
        while True:
            files = list_segments(self.directory)
            if not files:
                return files
            self._first = self._next = files[-1]
            try:
                self._read(segment_path(self.directory, self._first))
            except FileNotFoundError:
                continue  # its owner has replaced it since we looked
            self._synced = self._next - 1
            return files

    def _read(self, path: Path) -> None:
        fd = open_file(path, os.O_RDONLY)
        try:
            buffer = os.pread(fd, os.fstat(fd).st_size, 0)
        finally:
            os.close(fd)
        at, durable = 0, -1
        while (record := decode(buffer, at)) is not None and record.offset == self._next:
            durable = max(durable, self._take(path, record, record.end - at))
            at = record.end
            self._next += 1
        self._position = at
        if at < len(buffer):
            durable = max(durable, self._durable_behind(buffer, at))
        if at == 0 or durable >= self._next:
            raise LogDamaged(
                f"{path} is damaged at byte {at}: record {self._next} of the offset log is not readable, but it was "
                "durable. Restore the store from a copy, or move the file away: its consumers are then unknown"
            )

    def _take(self, path: Path, record: Record, size: int) -> int:
        """Remember a record; which one it says was durable."""
        try:
            number, synced, name, *rest = msgpack.unpackb(record.data)
            if number != FORMAT or type(name) is not str or type(synced) is not int:
                raise ValueError(f"format {number!r} of consumer {name!r}")
            if self._namespace == _MERGED and name:
                name = f"{'' if record.namespace == _MERGED else record.namespace.decode()}:{name}"
            if record.op == DELETE:
                self._live.pop(name, None)
                return synced
            position, high, flat = rest
            runs = tuple(zip(flat[::3], flat[1::3], flat[2::3], strict=True))
            self._live[name] = KeptConsumer(name, record.attribute & 3, Cursor(*position), Cursor(*high), runs), size
        except (ValueError, TypeError) as e:
            raise LogDamaged(
                f"{path}: record {record.offset} of the offset log cannot be read ({e}): is it from a newer version?"
            ) from e
        return synced

    def _durable_behind(self, buffer: bytes, at: int) -> int:
        """The highest number that a whole record behind a bad one calls durable (J3)."""
        durable = -1
        for found in fields_of(self._namespace, buffer[at:]):
            start = at + found - HEAD_BYTES
            record = decode(buffer, start) if start >= at else None
            if record is not None and record.offset >= self._next:
                durable = max(durable, _synced_of(record))
        return durable

    def _tidy(self, replaced: list[int]) -> None:
        """Remove what a crash has left: files that were replaced or never named, and bytes behind the last record."""
        paths = [segment_path(self.directory, first) for first in replaced]
        unnamed = self.directory / UNNAMED
        if os.path.lexists(unnamed):
            paths.append(unnamed)
        try:
            for path in paths:
                os.unlink(path)
            if paths:
                sync_directory(self.directory)
            if self._first >= 0:
                self._cut()
        except OSError as e:
            raise storage_error(e, f"cannot tidy {self.directory}") from e

    def _cut(self) -> None:
        path = segment_path(self.directory, self._first)
        fd = open_file(path)
        try:
            size = os.fstat(fd).st_size
            if size > self._position:
                log.warning("offset_log_tail_cut path=%s position=%d bytes=%d", path, self._position, size)
                os.ftruncate(fd, self._position)
            # What was read may be in the cache alone, which calls it clean after a failed sync: from here on it is called durable.
            write_all(fd, os.pread(fd, self._position, 0), 0)
            sync_file(fd, path)
        finally:
            os.close(fd)

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, kept: Iterable[KeptConsumer], removed: Iterable[str], now: int) -> None:
        """Make these durable: a removal, and what is kept of consumers from now on. StoreFull changes nothing."""
        kept, removed = list(kept), list(removed)
        live = {name: value for name, value in self._live.items() if name not in removed}
        records = [self._encode(self._next + i, now, self._synced, name, None) for i, name in enumerate(removed)]
        for one in kept:
            record = self._encode(self._next + len(records), now, self._synced, one.name, one)
            records.append(record)
            live[one.name] = one, len(record)
        size = self._position + sum(map(len, records))
        lives = sum(taken for _, taken in live.values())
        if self._first < 0 or self._is_suspect or size > max(GROWN_BYTES, GROWN_FACTOR * lives):
            self._rewrite([one for one, _ in live.values()], now)
        else:
            self._append(b"".join(records), len(records))
        self._live = live

    def _append(self, data: bytes, count: int) -> None:
        path = segment_path(self.directory, self._first)
        try:
            fd = open_file(path)
            try:
                self._is_suspect = True  # J4
                try:
                    write_all(fd, data, self._position)
                except (OSError, StorageError):
                    os.ftruncate(fd, self._position)
                    sync_file(fd, path)
                    raise
                sync_file(fd, path)
            finally:
                os.close(fd)
        except OSError as e:
            raise storage_error(e, f"cannot write to {path}") from e
        self._position += len(data)
        self._next += count
        self._synced, self._is_suspect = self._next - 1, False

    def _rewrite(self, live: list[KeptConsumer], now: int) -> None:
        """All that lives in a new file, which takes the place of the old one (J2)."""
        make_directory(self.directory)
        first, last = self._next, self._next + max(len(live), 1) - 1
        # The name makes all of them durable, so each may say so of the others. A file is never empty (J3).
        records = [self._encode(first + i, now, last, one.name, one) for i, one in enumerate(live)]
        data = b"".join(records) or self._encode(first, now, last, "", None)
        unnamed, path = self.directory / UNNAMED, segment_path(self.directory, first)
        try:
            unnamed.unlink(missing_ok=True)
            fd = open_file(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                write_all(fd, data, 0)
                sync_file(fd, unnamed)
            finally:
                os.close(fd)
            with durable_names(self.directory):
                # From here on the new file may be the one that counts, so nothing may go to the old one any more.
                self._is_suspect = True
                os.rename(unnamed, path)
        except OSError as e:
            raise storage_error(e, f"cannot write the offset log {path}") from e
        replaced, self._first = self._first, first
        self._position, self._next, self._synced, self._is_suspect = len(data), last + 1, last, False
        if replaced >= 0:
            try:
                os.unlink(segment_path(self.directory, replaced))
            except OSError as e:
                log.warning("offset_log_not_removed path=%s error=%s", segment_path(self.directory, replaced), e)

    def _encode(self, number: int, now: int, synced: int, name: str, kept: KeptConsumer | None) -> bytes:
        namespace = self._namespace
        if namespace == _MERGED and name:
            whose, _, name = name.partition(":")
            namespace = whose.encode() or _MERGED
        parts: list[Any] = [FORMAT, synced, name]
        mode, op = SYNC, DELETE
        if kept is not None:
            mode, op = kept.mode, UPDATE
            parts += [kept.position, kept.high, [part for run in kept.runs for part in run]]
        data: bytes = msgpack.packb(parts)
        names, size = len(namespace), len(data) + 4
        head = HEAD.pack(number, names + 8 + size, now, CHECKED | mode | op << 2, names)
        record = head + namespace + _U32.pack(size) + data
        return record + _U32.pack(crc32(record))


def _synced_of(record: Record) -> int:
    try:
        synced = msgpack.unpackb(record.data)[1]
    except (ValueError, TypeError, IndexError):
        return -1
    return synced if type(synced) is int else -1
