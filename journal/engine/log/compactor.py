"""
Compacting files: what of some neighbouring segments must stay, and one file with it that can take their place.

Both steps are generators that yield after every few records, so that the caller can stop in between; they return what
they have found or made. They hold no lock and change no file that has readers.

Y1  Records that stay are copied byte for byte. A run of records that go becomes one skip, with the timestamp of the last
    of them, over the borders of the segments too. So offsets have no gap (reader G1).
Y2  The new file holds exactly the offsets of those that it stands for, is durable when it is given back, and has as
    much room behind its records as every segment has.
Y3  What cannot be read is LogDamaged, and nothing is compacted: a damaged record must not become a skip.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

from journal.core.entry.effects import Effect, Skip
from journal.core.log.compaction_rule import Latest, marks_of
from journal.core.log.record import HEAD, encoder
from journal.engine.files.posix import open_file
from journal.engine.log.reader import CONDENSED, SEGMENT_BYTES_FIRST, RecordPlace, records, segment_path
from journal.errors import LogDamaged

STEP = 32
"""Records between two chances to stop: some hundred microseconds."""
PIECE = 256 << 10
"""Bytes that are copied between two chances to stop."""
SYNC_BYTES = 1 << 20
"""A sync in between, so that the last one is short."""


class Run(NamedTuple):
    """Neighbouring records of a segment that stay, or that go."""

    begin: int
    end: int
    """Their bytes in the file; the same number when they go."""
    offset: int
    changes: int
    timestamp: int
    """Of the last of them."""


class Scanned(NamedTuple):
    """What is to become of one segment."""

    first: int
    behind: int
    """The offset behind its last change."""
    runs: list[Run]
    records: int
    kept: int
    bytes: int
    """The size of its file."""

    bytes_kept: int
    """Of the records that stay."""


class _Records:
    """The records of a segment: arrays, since a hundred thousand tuples would take ten times the memory."""

    def __init__(self) -> None:
        self.ends = array("Q")
        self.counts = array("Q")
        self.stamps = array("Q")
        self.marks = array("L")
        """How many marks each of them has."""
        self.digests = bytearray()
        self.decisive = bytearray()


def scan(directory: Path, first: int, behind: int, latest: Latest) -> Generator[None, None, Scanned]:
    """Look at a segment's changes from `first` to before `behind`, when all newer ones were looked at."""
    path = segment_path(directory, first)
    fd = open_file(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        found = yield from _read(fd, path, first, behind, latest)
    finally:
        os.close(fd)
    stays = bytearray(len(found.ends))
    at = len(found.decisive)
    for index in range(len(found.ends) - 1, -1, -1):
        for _ in range(found.marks[index]):
            at -= 1
            digest = bytes(found.digests[16 * at : 16 * at + 16])
            if latest.keeps(digest, bool(found.decisive[at])):
                stays[index] = 1
        if index % STEP == 0:
            yield
    runs = _runs(found, stays, first)
    kept_bytes = sum(run.end - run.begin for run in runs)
    return Scanned(first, behind, runs, len(stays), sum(stays), size, kept_bytes)


def _read(fd: int, path: Path, first: int, behind: int, latest: Latest) -> Generator[None, None, _Records]:
    found = _Records()
    offset = first
    for index, (place, record, parts) in enumerate(records(fd, RecordPlace(first, first, 0))):
        if place.offset >= behind:
            break
        offset = place.offset + parts.changes
        if offset > behind and type(parts.effect) is not Skip:
            raise LogDamaged(f"{path}: the record at byte {place.position} goes on beyond the segment's end, {behind}")
        marks = marks_of(parts.effect)
        found.ends.append(record.end)
        found.counts.append(min(offset, behind) - place.offset)  # a skip that the next file repeats (reader G3)
        found.stamps.append(record.timestamp)
        found.marks.append(len(marks))
        for what, is_decisive in marks:
            found.digests += latest.digest(record.namespace, what)
            found.decisive.append(is_decisive)
        if index % STEP == 0:
            yield
    if offset < behind:
        position = found.ends[-1] if found.ends else 0
        raise LogDamaged(
            f"{path} is damaged at byte {position}: offset {offset} is not readable, it should go to {behind}"
        )
    return found


def _runs(found: _Records, stays: bytearray, first: int) -> list[Run]:
    runs: list[Run] = []
    begin, offset, was_staying = 0, first, -1
    for end, count, stamp, is_staying in zip(found.ends, found.counts, found.stamps, stays, strict=True):
        if is_staying == was_staying:
            last = runs[-1]
            runs[-1] = Run(last.begin, end if is_staying else last.end, last.offset, last.changes + count, stamp)
        else:
            runs.append(Run(begin, end if is_staying else begin, offset, count, stamp))
        begin, offset, was_staying = end, offset + count, is_staying
    return runs


def condense(
    directory: Path, group: list[Scanned], namespace: bytes, *, is_sparse: bool
) -> Generator[None, None, tuple[Path, int, int]]:
    """Write one file for neighbouring segments, oldest first (Y1, Y2); where it is, its bytes, its records."""
    path = directory / CONDENSED
    path.unlink(missing_ok=True)
    out = _Output(open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    encode = encoder(namespace)
    skipped: Run | None = None
    written = 0
    try:
        for scanned in group:
            fd = open_file(segment_path(directory, scanned.first), os.O_RDONLY)
            try:
                for run in scanned.runs:
                    if run.begin == run.end:
                        skipped = run if skipped is None else skipped._replace(
                            changes=skipped.changes + run.changes, timestamp=run.timestamp
                        )  # fmt: skip
                        continue
                    if skipped is not None:
                        out.write(_skip(encode, skipped))
                        skipped = None
                        written += 1
                    for at in range(run.begin, run.end, PIECE):
                        out.write(os.pread(fd, min(PIECE, run.end - at), at))
                        yield
            finally:
                os.close(fd)
            written += scanned.kept
        if skipped is not None:
            out.write(_skip(encode, skipped))
            written += 1
        out.finish(is_sparse=is_sparse)
    finally:
        os.close(out.fd)
    return path, out.size, written


def _skip(encode: Callable[[int, int, int, int, Effect], bytes], run: Run) -> bytes:
    return encode(run.offset, run.timestamp, 1, run.changes, Skip(run.changes))


def size_of(records_bytes: int) -> int:
    """The size of a file with so many bytes of records (Y2)."""
    return max(records_bytes + HEAD.size, SEGMENT_BYTES_FIRST)


class _Output:
    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.size = 0
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._unsynced = 0

    def write(self, piece: bytes) -> None:
        self._pending.append(piece)
        self._pending_bytes += len(piece)
        if self._pending_bytes >= PIECE:
            self._flush()

    def _flush(self) -> None:
        data = memoryview(b"".join(self._pending))
        self._pending.clear()
        self._pending_bytes = 0
        while data:
            written = os.pwrite(self.fd, data, self.size)
            self.size += written
            self._unsynced += written
            data = data[written:]
        if self._unsynced >= SYNC_BYTES:
            os.fdatasync(self.fd)
            self._unsynced = 0

    def finish(self, *, is_sparse: bool) -> None:
        """Room behind the records: of zeros, since the file may be used again (writer W2), or of nothing at all."""
        self._flush()
        size = size_of(self.size)
        if is_sparse:
            os.ftruncate(self.fd, size)
            self.size = size
        else:
            self.write(bytes(size - self.size))
            self._flush()
        os.fdatasync(self.fd)
