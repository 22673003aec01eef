"""
Reading the log's files: which segments there are, the records in them, and where they end.

A segment is `<first offset, 20 digits>.log`. Behind its last record are zeros (preallocated) or the bytes of an older
segment (a recycled file): those have lower offsets, so they are never taken for records.

G1  Records are read in the order of their offsets, without a gap, over all segments.
G2  A bad record is a torn tail when nothing behind it claims that it was durable, and damage otherwise; a record that
    runs over the end of the file is damage too. What its head says counts if the disk has written it in one go: of one that
    lies over two sectors a power cut may leave the offset in front of a recycled file's old bytes, as if they were its length.
G3  A segment holds all changes from its first offset to that of the next file, and may go on beyond it: compaction puts
    one file in the place of several, and the others go after it. So at any moment the segment that a change is read
    from is the last one that begins at or before it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from journal.core.limits import RECORD_BYTES_MAX
from journal.core.log.record import HEAD, HEAD_BYTES, LENGTH_END, OVERHEAD, Payload, Record, decode, payload
from journal.core.settings import MERGED
from journal.engine.files.posix import check_own, open_file
from journal.errors import LogDamaged

_NAME = re.compile(r"(\d{20})\.log")
_MERGED = MERGED.encode()
_ANY_FIELD = re.compile(rb"(?=\0\0\0[\x01-\x40][A-Za-z0-9_])")
"""A length of 1 to 64 and the beginning of a name (settings.NAME, MERGED)."""
_CHUNK = 1 << 20
SEGMENT_BYTES_FIRST = 256 << 10
"""A segment gets its name when it has so many bytes of prepared space, and grows by a multiple of it; a shorter one was cut."""
SECTOR_BYTES = 512
"""What a disk writes whole or not at all."""
UNNAMED = "new.log"
"""A segment that is being prepared."""
CONDENSED = "compact.log"
"""What compaction writes, until it gets the name of the segment whose place it takes."""


class RecordPlace(NamedTuple):
    """Where a record begins: its offset, and its segment and position."""

    offset: int
    segment: int
    position: int


def segment_path(directory: Path, first: int) -> Path:
    """The file of the segment that begins with this offset."""
    return directory / f"{first:020d}.log"


def list_segments(directory: Path) -> list[int]:
    """The first offsets of the segments, in order; anything else in the directory is refused."""
    found = []
    for name in os.listdir(directory):
        if name in (UNNAMED, CONDENSED):
            continue
        match = _NAME.fullmatch(name)
        if match is None:
            raise LogDamaged(f"{directory / name} is not a segment of the log: move it out of the store")
        try:
            check_own(directory / name, is_directory=False)
        except FileNotFoundError:
            continue  # removed, or reused, since it was listed
        found.append(int(match[1]))
    return sorted(found)


class Reader:
    """Reads records from a place on, to the end of the log; then `end` is that place."""

    def __init__(self, directory: Path, namespace: bytes, start: RecordPlace) -> None:
        self.directory = directory
        self._namespace = namespace
        self.end = start

    def __iter__(self) -> Iterator[tuple[RecordPlace, Record, Payload]]:
        segments = list_segments(self.directory)
        offset, first, position = self.end
        if first != offset and offset in segments:
            # The place is the end of a segment that may have been removed or compacted since.
            first, position = offset, 0
            self.end = RecordPlace(offset, first, position)
        begin = offset
        if first not in segments:
            raise LogDamaged(f"{segment_path(self.directory, first)} is missing: records from {offset} on are lost")
        while True:
            path = segment_path(self.directory, first)
            fd = open_file(path, os.O_RDONLY)
            try:
                size = os.fstat(fd).st_size
                if size < max(position, SEGMENT_BYTES_FIRST):
                    raise LogDamaged(f"{path} was cut at byte {size}: offset {offset} should be at byte {position}")
                for place, record, parts in records(fd, RecordPlace(begin, first, position)):
                    if place.offset + parts.changes <= offset:
                        continue  # in the file before as well (G3)
                    yield place, record, parts
                    offset = place.offset + parts.changes
                    position = record.end
                    self.end = RecordPlace(offset, first, position)
                following = max((s for s in segments if first < s <= offset), default=None)  # G3
                if following is not None:
                    begin, first, position = following, following, 0
                    if first == offset:
                        self.end = RecordPlace(offset, first, position)
                    continue
                later = [s for s in segments if s > first]
                if later:
                    raise LogDamaged(
                        f"{path} is damaged at byte {position}: offset {offset} is not readable, but the log goes on at "
                        f"{later[0]}. Restore the store from a copy"
                    )
                self._check_tail(fd, path)
                return
            finally:
                os.close(fd)

    def _check_tail(self, fd: int, path: Path) -> None:
        """Distinguish a torn tail from damage (G2)."""
        offset, _, position = self.end
        # Records are written only inside of space that was prepared and synced before, and never fill it.
        head = os.pread(fd, HEAD.size, position)
        size = os.fstat(fd).st_size
        is_cut = len(head) < HEAD.size and (position == size or any(head))
        if len(head) == HEAD.size:
            found, length = HEAD.unpack(head)[:2]
            is_cut = found == offset and size < position + HEAD_BYTES + length <= position + RECORD_BYTES_MAX
            is_in_one_sector = position % SECTOR_BYTES + LENGTH_END <= SECTOR_BYTES
            is_cut = is_cut and (is_in_one_sector or size % SEGMENT_BYTES_FIRST != 0)
        if is_cut and position:
            raise LogDamaged(
                f"{path} was cut at byte {size}: the record at byte {position} (offset {offset}) is not whole"
            )
        for at, record in survivors(fd, self._namespace, self.end):
            if record is not None and record.offset - payload(record).behind >= offset:
                raise LogDamaged(
                    f"{path} is damaged at byte {position}: offset {offset} is not readable, but the record at byte "
                    f"{at} (offset {record.offset}) shows that it was durable. Restore the store from a copy"
                )


def records(fd: int, start: RecordPlace) -> Iterator[tuple[RecordPlace, Record, Payload]]:
    """The whole records of one segment from a place on, while their offsets follow; `end` is the file position."""
    size = os.fstat(fd).st_size
    offset, first, base = start
    buffer, at = b"", 0
    while True:
        record = decode(buffer, at)
        if record is None:
            need = OVERHEAD
            if len(buffer) - at >= HEAD.size:
                need = min(HEAD_BYTES + HEAD.unpack_from(buffer, at)[1], RECORD_BYTES_MAX)
            if need <= len(buffer) - at or base + len(buffer) >= size:
                return
            base, at = base + at, 0
            buffer = os.pread(fd, max(_CHUNK, need), base)
            if len(buffer) < min(need, size - base):
                return
            continue
        if record.offset != offset:
            return
        parts = payload(record)
        yield RecordPlace(offset, first, base + at), record._replace(end=base + record.end), parts
        offset += parts.changes
        at = record.end


def survivors(fd: int, namespace: bytes, end: RecordPlace) -> Iterator[tuple[int, Record | None]]:
    """
    Places behind the end that look like records of this or a later offset; None where only the head is readable.

    Found by their namespace field, so that megabytes of zeros cost one memchr.
    """
    rest = os.pread(fd, os.fstat(fd).st_size - end.position, end.position)
    for found in fields_of(namespace, rest):
        at = found - HEAD_BYTES
        if at >= 0 and HEAD.unpack_from(rest, at)[0] >= end.offset:
            yield end.position + at, decode(rest, at)


def fields_of(namespace: bytes, buffer: bytes) -> Iterator[int]:
    """Where a namespace field may be: this one's, or any journal's in a log that merged journals share."""
    if namespace == _MERGED:
        if buffer.count(0) != len(buffer):
            for match in _ANY_FIELD.finditer(buffer):
                yield match.start()
        return
    pattern = len(namespace).to_bytes(4, "big") + namespace
    found = buffer.find(pattern)
    while found >= 0:
        yield found
        found = buffer.find(pattern, found + 1)
