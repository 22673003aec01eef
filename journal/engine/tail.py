"""
Reading the log while it is written: pages of events after a cursor, up to what a follower may see.

U1  No record is given that could still vanish although its writer asked for durability (Pipeline.shown).
U2  Events come in the order of their cursors, without a gap: what cannot be read is an error. CursorUnavailable when it
    was let go, LogDamaged otherwise.
U3  The bytes of a record are believed when its offset is the one that must come next and its checksum is right: a
    segment that is recycled under a reader who holds nothing back has higher offsets.
U4  A segment may be compacted under a reader: it reads the old file to its end, if it likes, and then looks anew for
    the one that holds the next change (segments G3).
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import msgpack

from journal.core.cursor import Cursor
from journal.core.effects import INSERT, Skip
from journal.core.events import Event, Where, events_of, put_event, put_events
from journal.core.limits import RECORD_BYTES_MAX
from journal.core.record import CHECKED, HEAD, HEAD_BYTES, OVERHEAD, SYNC_MODE, decode, payload
from journal.core.spans import Span, resolve, roll_forward
from journal.engine.files import open_file
from journal.engine.segments import list_segments, segment_path
from journal.errors import LogDamaged

if TYPE_CHECKING:
    from journal.engine.pipeline import Pipeline

_head = HEAD.unpack_from
_u32 = struct.Struct(">I").unpack_from
_unpackb = msgpack.unpackb
_PUT = CHECKED | SYNC_MODE | INSERT << 2
BLOCK_BYTES = 256 << 10
"""One read: some thousand small changes, which are in memory as events at a time."""
MARKS_MAX = 256


class KeptLog(NamedTuple):
    """The log of one generation: what is known of it, and where it is."""

    span: Span
    directory: Path


def kept_logs(p: Pipeline) -> list[KeptLog]:
    """The logs that a journal has, in order; under its lock. The only place that knows which generations there are."""
    if p.trouble is not None:
        raise p.trouble
    if not p.is_writable:
        p.enter()  # what its owner has committed by now
    logs = [KeptLog(span, p.directory(span.order) / "log") for span in p.generations.spans()]
    active = logs[-1]
    shown = p.shown() - p.log.base
    oldest = active.span.oldest if p.is_writable else list_segments(active.directory)[0]
    return [*logs[:-1], active._replace(span=Span(p.order, shown, False, min(oldest, shown + 1)))]


def spans_of(p: Pipeline) -> list[Span]:
    """The same for arithmetic with cursors."""
    return [log.span for log in kept_logs(p)]


class _Mark(NamedTuple):
    """Where a page began: the cursor before it, and the place of its first record."""

    before: Cursor
    first: int
    position: int


class Tail:
    """A reader of one journal's log. For one thread at a time."""

    def __init__(self, p: Pipeline, after: Cursor) -> None:
        self.at = after
        """What comes next is the change after this one."""
        self.is_at_end = False
        """The last page held all that there was to see."""
        self.crossed: list[tuple[Cursor, Cursor]] = []
        """Places that were passed, ends of generations and gaps that compaction left, each with the cursor before the
        next change; for the caller to clear."""
        self._p = p
        self._directory: Path | None = None
        self._fd = -1
        self._first = 0
        self._position = 0
        self._sought = (0, 0)
        """The file and the offset that were looked for last, for want of a next record."""
        self._marks: list[_Mark] = []
        """The last pages, so that a failed consumer goes back without a search."""

    def page(self) -> list[Event]:
        """The next events; none when there is nothing more to see now."""
        while True:
            last, ready = self._look()
            if self.at.offset >= last:
                return []
            if self._fd < 0:
                self._find()
            if events := self._read(last, ready):
                self.is_at_end = self.at.offset >= last
                return events

    def _look(self) -> tuple[int, int]:
        """The last offset to see in the generation that is read, and how far its open segment is written."""
        p = self._p
        with p.lock:
            logs = kept_logs(p)
            is_open = p.is_writable and p.log.directory == self._directory and p.log.first == self._first
            ready = p.log.position if is_open else 1 << 63
        newest = logs[-1].span
        if self.at.order == newest.order and self.at.offset >= newest.last:
            return newest.last, 0
        spans = [log.span for log in logs]
        at = resolve(self.at, spans)
        if at != self.at:
            self.crossed.append((self.at, at))
            self.close()
            self.at = at
        log = next(log for log in logs if log.span.order == at.order)
        if log.directory != self._directory:
            self.close()
            self._directory = log.directory
        return log.span.last, ready if log.span is newest else 1 << 63

    def seek(self, after: Cursor) -> None:
        """Go on after another cursor."""
        at = bisect_right(self._marks, after, key=lambda mark: mark.before)
        del self._marks[at:]
        self.close()
        is_same = self.at.order == after.order
        self.at = after
        if is_same and self._marks and self._marks[-1].before.order == after.order:
            self._open(self._marks[-1].first, self._marks[-1].position)

    def close(self) -> None:
        """Close the segment that is open."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()

    # -- one segment ----------------------------------------------------------------------------------------------------

    def _open(self, first: int, position: int = 0) -> None:
        assert self._directory is not None
        self.close()
        try:
            self._fd = open_file(segment_path(self._directory, first), os.O_RDONLY)
        except FileNotFoundError:
            return  # let go since we looked: the next look says so
        self._first, self._position = first, position

    def _find(self) -> None:
        """Open the segment that holds the next change, near it; `_decode` passes over what is before it."""
        assert self._directory is not None
        segments = list_segments(self._directory)
        at = bisect_right(segments, self.at.offset + 1)
        if at:
            self._open(segments[at - 1])
        if self._fd >= 0:
            self._position = _skipped(self._fd, self.at.offset + 1)

    def _read(self, last: int, ready: int) -> list[Event]:
        """The events of one block; none when the segment is left for the next one, or went."""
        if self._fd < 0:
            return []
        before, first, position = self.at, self._first, self._position
        size = min(BLOCK_BYTES, max(ready - position, OVERHEAD))
        buffer = os.pread(self._fd, size, position)
        if len(buffer) >= HEAD.size:
            need = HEAD_BYTES + HEAD.unpack_from(buffer)[1]
            if len(buffer) < need <= RECORD_BYTES_MAX:
                buffer = os.pread(self._fd, need, position)
        events, used = self._decode(buffer, last)
        if used:
            if not self._marks or self._marks[-1].before < before:
                self._marks.append(_Mark(before, first, position))
                if len(self._marks) > MARKS_MAX:
                    del self._marks[: MARKS_MAX // 2]
            self._position += used
            return events
        self._leave()
        return []

    def _decode(self, buffer: bytes, last: int) -> tuple[list[Event], int]:
        """The events of the whole records that come next, and how many bytes these are (U3)."""
        order, wanted = self.at.order, self.at.offset + 1
        events: list[Event] = []
        at = 0
        while wanted <= last:
            at, wanted = self._decode_puts(buffer, at, wanted, last, events)
            record = decode(buffer, at)
            if record is None or not record.attribute & CHECKED:  # ours are; one without has lost that bit
                break
            if not self._first <= record.offset <= min(wanted, last):
                break
            parts = payload(record)
            following = record.offset + parts.changes
            if type(parts.effect) is Skip and following > wanted:
                self.crossed.append((Cursor(order, wanted - 1), Cursor(order, following - 1)))
                wanted = following
            elif following > wanted:
                events += events_of(record, parts, order, self._p.generations.blank)[wanted - record.offset :]
                wanted = following
            at = record.end
        self.at = Cursor(order, wanted - 1)
        return events, at

    def _decode_puts(self, buffer: bytes, at: int, wanted: int, last: int, events: list[Event]) -> tuple[int, int]:
        """
        The same for puts, which a log holds most of; ends before anything else.

        `decode`, `payload` and `events_of` in one loop: 1.6 in place of 8.3 µs for a put.
        """
        order, name = self.at.order, self._p.name
        names = len(self._p.log.namespace)
        skip, least, size = HEAD_BYTES + 8 + names, names + 12, len(buffer)
        blank = self._p.generations.blank
        where = Where(order, 0, "sync", name, blank)
        stamp, add = -1, events.append
        while wanted <= last and size - at >= OVERHEAD:
            offset, length, timestamp, attribute, found = _head(buffer, at)
            end = at + HEAD_BYTES + length
            if offset != wanted or attribute != _PUT or found != names or end > size or length < least:
                break
            body = buffer[at : end - 4]
            if _u32(buffer, end - 4)[0] != crc32(body):
                break
            parts = _unpackb(body[skip:])
            if timestamp != stamp:
                stamp, where = timestamp, Where(order, timestamp, "sync", name, blank)
            if parts[0] == 1:
                add(put_event(where, offset, parts[3], parts[4]))
                wanted += 1
            elif parts[0] == 2 and len(parts[3]) == 2 * parts[2]:
                events += put_events(where, offset, parts[3])
                wanted += parts[2]
            else:
                break
            at = end
        return at, wanted

    def _leave(self) -> None:
        """No record follows here: go on in the segment that holds the next change (U4), or say why not (U2)."""
        assert self._directory is not None
        offset, position = self.at.offset + 1, self._position
        if self._first != offset and segment_path(self._directory, offset).exists():
            self._open(offset)
            return
        path = segment_path(self._directory, self._first)
        self._find()
        if self._fd >= 0:
            sought = (os.fstat(self._fd).st_ino, offset)
            if sought != self._sought:
                self._sought = sought
                return
        with self._p.lock:
            spans = spans_of(self._p)
        resolve(roll_forward(self.at, spans), spans)  # raises when it was let go
        raise LogDamaged(
            f"{path} is damaged at byte {position}: offset {offset} is not readable. Restore the store from a copy"
        )


def _skipped(fd: int, offset: int) -> int:
    """Where a record begins that is not behind this offset, and near it: heads are read, and nothing is verified."""
    base = position = 0
    buffer = b""
    while True:
        if position - base + HEAD.size > len(buffer):
            base, buffer = position, os.pread(fd, BLOCK_BYTES, position)
            if len(buffer) < HEAD.size:
                return base
        size = HEAD.unpack_from(buffer, position - base)[1]
        following = position + HEAD_BYTES + size
        head = buffer[following - base : following - base + HEAD.size]
        if len(head) < HEAD.size:
            head = os.pread(fd, HEAD.size, following)
        found = HEAD.unpack_from(buffer, position - base)[0]
        if len(head) < HEAD.size or not found < HEAD.unpack(head)[0] <= offset:
            return position
        position = following
