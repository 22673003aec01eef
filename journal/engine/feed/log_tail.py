"""
Reading the log while it is written: pages of events after a cursor, up to what a follower may see.

U1  No record is given that could still vanish although its writer asked for durability (Pipeline.shown).
U2  Events come in the order of their cursors, without a gap: what cannot be read is an error. CursorUnavailable when it
    was removed, LogDamaged otherwise.
U3  The bytes of a record are valid when its offset is the one that must come next and its checksum is right: a
    segment that is recycled under a reader that does not hold the log has higher offsets.
U4  A segment may be compacted under a reader: it may read the old file to its end, and then looks anew for
    the one that holds the next change (reader G3).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from journal.core.entry.effects import Skip
from journal.core.limits import RECORD_BYTES_MAX
from journal.core.log.acks import Run
from journal.core.log.cursor import Cursor
from journal.core.log.cursor_math import Span, resolve, roll_forward
from journal.core.log.events import Event, Where, events_of
from journal.core.log.put_decoder import puts_decoder
from journal.core.log.record import CHECKED, HEAD, HEAD_BYTES, OVERHEAD, decode, payload
from journal.engine.files.posix import open_file
from journal.engine.log.closed_logs import ClosedLogs, KeptLog
from journal.engine.log.followers import Followers
from journal.engine.log.reader import list_segments, segment_path
from journal.engine.log.writer import LogWriter
from journal.engine.runtime.host import Host
from journal.errors import LogDamaged

BLOCK_BYTES = 256 << 10
"""One read: about a thousand small changes."""
PAGE_EVENTS = 500
"""So many are in memory as events at a time: with 700 Python would look for garbage among them, 0.1 µs for each."""
MARKS_MAX = 256


class FollowedGenerations(Protocol):
    """The generations of a journal, as followers see them."""

    @property
    def first(self) -> int: ...
    @property
    def blank(self) -> dict[str, Any] | None: ...
    def closed_logs(self) -> ClosedLogs: ...


class FollowedJournal(Host, Protocol):
    """A journal whose log is followed."""

    is_writable: bool
    log: LogWriter
    followers: Followers

    @property
    def only(self) -> bytes | None: ...
    @property
    def order(self) -> int: ...
    @property
    def generations(self) -> FollowedGenerations: ...
    def enter(self) -> int: ...
    def shown(self) -> int: ...


def active_log(p: FollowedJournal) -> KeptLog:
    """The log that takes records, up to what a follower may see; under the lock."""
    if p.trouble is not None:
        raise p.trouble
    if not p.is_writable:
        p.enter()  # what its owner has committed by now
    log = p.log
    directory = log.directory  # known: making a path is half of a look
    shown = p.shown() - log.base
    oldest = log.oldest if p.is_writable else list_segments(directory)[0]
    return KeptLog(Span(p.order, shown, False, min(oldest, shown + 1)), directory)


def kept_logs(p: FollowedJournal) -> list[KeptLog]:
    """The logs that a journal has, in order; under its lock. The only place that knows which generations there are."""
    active = active_log(p)
    return [*p.generations.closed_logs().logs, active]


def spans_of(p: FollowedJournal) -> list[Span]:
    """The same for arithmetic with cursors."""
    return [log.span for log in kept_logs(p)]


class _Mark(NamedTuple):
    """Where a page began: the cursor before it, and the place of its first record."""

    before: Cursor
    first: int
    position: int


class Tail:
    """A reader of one journal's log. For one thread at a time."""

    def __init__(self, p: FollowedJournal, after: Cursor) -> None:
        self.at = after
        """The next page begins with the change after this one."""
        self.is_at_end = False
        """The last page held all that there was to see."""
        self.crossed: list[tuple[Cursor, Cursor]] = []
        """Ends of generations that were passed, with the cursor before the next change; for the caller to clear."""
        self.is_cut = False
        """The last page ended before all was read that it might have held."""
        self.large_bytes = RECORD_BYTES_MAX
        """`page` does not read a record with more bytes: it sets `is_large`, and a caller that can wait calls `read_large`."""
        self.is_large = False
        self.passed: list[Run] = []
        """Changes that have no event for this reader, in order; for the caller to clear."""
        self._p = p
        self._directory: Path | None = None
        self._fd = -1
        self._first = 0
        self._position = 0
        self._log = p.log
        self._generations = p.generations
        namespace = self._log.namespace if p.only is None else p.only
        self._decode_puts, self._ahead = puts_decoder(namespace, is_shared=p.only is not None)
        self._events: Iterator[Event] = iter(())
        """Those of the last block that no page has held yet, and the change that it ends with."""
        self._end = after
        self._last, self._ready = -1, 0
        """What the last look has found."""
        self._sought = (0, 0)
        """The file and the offset that were looked for last, for want of a next record."""
        self._marks: list[_Mark] = []
        """The last pages, so that a failed consumer goes back without a search."""

    def page(self, blocks: int = -1) -> list[Event]:
        """The next events; none when there is nothing more to see now, or when so many blocks have none (`is_cut`)."""
        has_looked = False
        self.is_cut = self.is_large = False
        while True:
            if events := list(islice(self._events, PAGE_EVENTS)):
                self.at = events[-1].cursor
                self.is_at_end = has_looked and self.at.offset >= self._last
                return events
            self.at = self._end
            if self._fd < 0 or self.at.offset >= self._last:  # what may be seen only grows: no look before it is read
                self._last, self._ready = self._look()
                has_looked = True
                if self.at.offset >= self._last:
                    return []
            if self._fd < 0:
                self._find()
            if blocks == 0:
                self.is_cut = True
                return []
            self._read()
            if self.is_large:
                self.is_cut = True
                return []
            blocks -= 1

    def read_large(self) -> None:
        """Read the record that the last page has left; the next page begins with it. What fails is left to that page."""
        large, self.large_bytes = self.large_bytes, RECORD_BYTES_MAX
        self._read()
        self.large_bytes = large

    def _look(self) -> tuple[int, int]:
        """The last offset to see in the generation that is read, and how far its open segment is written."""
        p = self._p
        with p.lock:
            log = active = active_log(p)
            is_elsewhere = self.at.order != active.span.order or self.at.offset + 1 < active.span.oldest
            if is_elsewhere:  # else no other generation plays a part
                logs = kept_logs(p)
                active = logs[-1]
            writer = self._log
            is_open = p.is_writable and writer.directory == self._directory and writer.first == self._first
            ready = writer.position if is_open else 1 << 63
        if self.at.order == active.span.order and self.at.offset >= active.span.last:
            return active.span.last, 0
        if is_elsewhere:
            at = resolve(self.at, [log.span for log in logs])
            if at != self.at:
                self.crossed.append((self.at, at))
                self.close()
                self.at = self._end = at
            log = next(log for log in logs if log.span.order == at.order)
        if log.directory != self._directory:
            self.close()
            self._directory = log.directory
        return log.span.last, ready if log is active else 1 << 63

    def seek(self, after: Cursor) -> None:
        """Go on after another cursor."""
        at = bisect_right(self._marks, after, key=lambda mark: mark.before)
        del self._marks[at:]
        self.close()
        is_same = self.at.order == after.order
        self.at = self._end = after
        self._events, self._last = iter(()), -1
        self.passed.clear()
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
            return  # removed since it was listed: the next look finds out
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

    def _read(self) -> None:
        """Read and decode one block; when nothing follows in the segment, go on in the next one."""
        if self._fd < 0:
            return
        before, first, position = self.at, self._first, self._position
        size = min(BLOCK_BYTES, max(self._ready - position, OVERHEAD) + self._ahead)
        buffer = os.pread(self._fd, size, position)
        if len(buffer) >= HEAD.size:
            need = HEAD_BYTES + HEAD.unpack_from(buffer)[1]
            if len(buffer) < need <= RECORD_BYTES_MAX:
                self.is_large = need > self.large_bytes
                if self.is_large:
                    return
                buffer = os.pread(self._fd, need + self._ahead, position)
        used = self._decode(buffer)
        if not used:
            self._leave()
            return
        if not self._marks or self._marks[-1].before < before:
            self._marks.append(_Mark(before, first, position))
            if len(self._marks) > MARKS_MAX:
                del self._marks[: MARKS_MAX // 2]
        self._position += used

    def _decode(self, buffer: bytes) -> int:
        """Have the events of the whole records that come next; how many bytes these are (U3)."""
        order, wanted, last = self.at.order, self.at.offset + 1, self._last
        blank = self._generations.blank
        where = Where(order, 0, "sync", self._p.name, blank)
        only = self._p.only
        found: list[Iterable[Event]] = []
        at = 0
        while wanted <= last:
            at, wanted, events = self._decode_puts(buffer, at, wanted, last, where)
            found.append(events)
            record = decode(buffer, at)
            if record is None or not record.attribute & CHECKED:  # ours are; one without has lost that bit
                break
            if not self._first <= record.offset <= min(wanted, last):
                break
            parts = payload(record)
            following = record.offset + parts.changes
            if following > wanted:
                if type(parts.effect) is Skip or (only and record.namespace != only):
                    self._pass(order, wanted, following - 1)
                else:
                    found.append(events_of(record, parts, order, blank)[wanted - record.offset :])
                wanted = following
            at = record.end
        self._events = chain.from_iterable(found)
        self._end = Cursor(order, wanted - 1)
        return at

    def _pass(self, order: int, first: int, last: int) -> None:
        passed = self.passed
        if passed and passed[-1][0] == order and passed[-1][2] == first - 1:
            passed[-1] = (order, passed[-1][1], last)
        else:
            passed.append((order, first, last))

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
        resolve(roll_forward(self.at, spans), spans)  # raises when it was removed
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
