"""
Reading log files that are not ours to write: those of a store that another process works on, and those that another
program wrote in the same format (record.py), without our checksum and with data of any kind.

    DIRECTORY/<first offset, 20 digits>.log

Nothing is ever written, locked or mapped. A directory whose first record is one of ours is read by the rules of
reader.py, any other one by those below; other files in such a directory are left alone.

R1  A log of ours is read beside its owner, which writes, renames and removes: what looks like damage counts only when
    later looks at the same place find it again. Segments that the owner removes are a gap, and `let_go` says which;
    those that it compacts are read anew from the next change on.
R2  A segment of another program ends with its file, at a header of zeros, or at a record that the file does not hold
    whole. The last is damage if the next segment shows that changes are missing.
R3  Offsets ascend. They may skip numbers (compaction takes records out), but stay within their segment's name and the
    next one's.
R4  Everything else is damage: LogDamaged names the file and the byte. All records before it have been given.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from journal.core.entry.effects import Skip
from journal.core.log.record import CHECKED, HEAD, HEAD_BYTES, OVERHEAD, Payload, Record, decode, payload
from journal.engine.files.posix import storage_error
from journal.engine.log.reader import Reader, RecordPlace, list_segments, segment_path
from journal.errors import LogDamaged, StorageError

_NAME = re.compile(r"([0-9]{20})\.log")
_CHUNK = 1 << 20
_LOOKS_MAX = 5
"""Beside an owner that changed segments every 40 ms, one look in 260 met a file that was being renamed."""


class FoundRecord(NamedTuple):
    """A record, where it stands, and its effect if it is one of ours."""

    path: Path
    position: int
    record: Record
    payload: Payload | None

    @property
    def last(self) -> int:
        """The offset of its last change."""
        return self.record.offset + (self.payload.changes if self.payload else 1) - 1


class LogFiles:
    """The segments of one directory."""

    def __init__(self, directory: Path, *, namespace: bytes | None = None) -> None:
        """With a namespace the log is ours, of that journal; else its first record shows whose it is."""
        self.directory = directory
        try:
            self._namespace = _our_namespace(directory) if namespace is None else namespace
        except OSError as e:
            raise storage_error(e, f"cannot read the log in {directory}") from e
        self.let_go: list[tuple[int, int]] = []
        """Offsets, from and to, that the owner removed while we read (R1)."""

    def segments(self) -> list[int]:
        """The first offsets of the segments, in order."""
        looks = 0
        while True:
            try:
                return _names(self.directory) if self._namespace is None else list_segments(self.directory)
            except OSError as e:
                looks += 1
                if looks == _LOOKS_MAX or not isinstance(e, FileNotFoundError) or not self.directory.exists():
                    raise storage_error(e, f"cannot read the directory {self.directory}") from e

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[FoundRecord]:
        """The records that hold changes from `start` on and before `stop`, in order."""
        try:
            segments = self.segments()
            first = max((s for s in segments if s <= start), default=segments[0] if segments else None)
            if first is None:
                return
            found = _foreign(self.directory, first) if self._namespace is None else self._ours(self._namespace, first)
            for each in found:
                if stop is not None and each.record.offset >= stop:
                    return
                if each.last >= start:
                    yield each
        except OSError as e:
            raise storage_error(e, f"cannot read the log in {self.directory}") from e

    def newest(self, namespace: bytes | None = None) -> FoundRecord | None:
        """The last record (of a namespace) that compaction has not taken out."""
        stop = None
        for first in reversed(self.segments()):
            found = None
            for each in self.read(first, stop):
                is_wanted = namespace is None or each.record.namespace == namespace
                if is_wanted and not (each.payload and type(each.payload.effect) is Skip):
                    found = each
            if found is not None:
                return found
            stop = first
        return None

    def _ours(self, namespace: bytes, first: int) -> Iterator[FoundRecord]:
        """Read a log of ours, beside its owner if there is one (R1)."""
        reader = Reader(self.directory, namespace, RecordPlace(first, first, 0))
        doubtful, looks, reached = reader.end, 0, first
        while True:
            try:
                for place, record, parts in reader:
                    if place.offset + parts.changes > reached:
                        yield FoundRecord(segment_path(self.directory, place.segment), place.position, record, parts)
                return
            except (LogDamaged, FileNotFoundError):
                offset, segment, _ = place = reader.end
                segments = self.segments()
                later = [s for s in segments if s >= offset]
                if later and segments[0] > segment:
                    if later[0] > offset:
                        self.let_go.append((offset, later[0] - 1))
                    reader = Reader(self.directory, namespace, RecordPlace(later[0], later[0], 0))
                    continue
                looks = looks + 1 if place == doubtful else 1
                doubtful = place
                if looks == _LOOKS_MAX:
                    raise
                holding = max((s for s in segments if s <= offset), default=segment)
                if holding != segment or looks > 1:  # compacted, or about to be found damaged again
                    reached = max(reached, offset)
                    reader = Reader(self.directory, namespace, RecordPlace(holding, holding, 0))


def _names(directory: Path) -> list[int]:
    """The segments by their names, whatever else is there."""
    return sorted(int(match[1]) for match in map(_NAME.fullmatch, os.listdir(directory)) if match)


def _our_namespace(directory: Path) -> bytes | None:
    """The namespace of the first record if that is one of ours."""
    for first in _names(directory):
        fd = _open(segment_path(directory, first))
        try:
            head = os.pread(fd, HEAD.size, 0)
            if len(head) < HEAD.size or not HEAD.unpack(head)[3] & CHECKED:
                continue
            record = decode(os.pread(fd, min(HEAD_BYTES + HEAD.unpack(head)[1], os.fstat(fd).st_size), 0))
        finally:
            os.close(fd)
        if record is not None:
            try:
                payload(record)
            except LogDamaged:
                return None
            return record.namespace
    return None


def _open(path: Path) -> int:
    """A descriptor of a regular file, also of another user's; a pipe of that name must not hold us."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise StorageError(f"{path} is not a regular file")
    return fd


def _foreign(directory: Path, start: int) -> Iterator[FoundRecord]:
    """The records of another program, from a segment on."""
    segments = [first for first in _names(directory) if first >= start]
    for first, following in zip(segments, [*segments[1:], None], strict=True):
        path = segment_path(directory, first)
        fd = _open(path)
        try:
            yield from _segment(fd, path, first, following)
        finally:
            os.close(fd)


def _segment(fd: int, path: Path, expected: int, following: int | None) -> Iterator[FoundRecord]:
    """The records of one segment; `following` is the next one's first offset."""
    base, buffer, at = 0, b"", 0
    while True:
        if len(buffer) - at < OVERHEAD:
            base, at = base + at, 0
            buffer = os.pread(fd, _CHUNK, base)
        position = base + at
        need = HEAD_BYTES + HEAD.unpack_from(buffer, at)[1] if len(buffer) - at >= HEAD.size else OVERHEAD
        if need > len(buffer) - at:
            size = os.fstat(fd).st_size
            if position + need > size:
                is_missing = following is not None and following > expected
                if is_missing and any(buffer[at : at + HEAD_BYTES]):
                    raise LogDamaged(
                        f"{path} is cut at byte {size}: the record at byte {position} needs {need} bytes, and the log "
                        f"goes on at offset {following}, not {expected}"
                    )
                return
            base, at = position, 0
            buffer = os.pread(fd, max(need, _CHUNK), base)
        if not any(buffer[at : at + HEAD_BYTES]):
            return
        record = decode(buffer, at)
        if record is None:
            raise LogDamaged(f"{path} is damaged at byte {position}: its lengths, or its checksum, do not fit a record")
        if record.offset < expected or (following is not None and record.offset >= following):
            allowed = f"at least {expected}" + (f" and less than {following}" if following is not None else "")
            raise LogDamaged(f"{path} is damaged at byte {position}: offset {record.offset}, expected {allowed}")
        yield FoundRecord(path, position, record._replace(end=base + record.end), None)
        expected = record.offset + 1
        at = record.end
