"""
Writing the log: one segment is open, records are appended to preallocated space, nothing else is ever written there.

W1  A record is in the OS before its effect is applied (level none: it is in our buffer, in order). A write that fails
    changes nothing: the next record takes its place.
W2  Records go only to space that was written before (zeros, or a recycled segment's old bytes) and synced, so that a
    sync writes no metadata, and a full disk is met when space is prepared, not when a record is written. The space
    of a load is allocated and synced, but not written: zeros would be as many bytes once more.
W3  A segment is synced before the next one takes records. It gets its name when its space is prepared and synced, and
    the name is durable before it takes records.
W4  The last RESERVE bytes are for work that frees room or ends leases: puts are refused earlier.
W5  Only segments that two checkpoints have passed are reused, removed or compacted (LMDB's last commit may be lost in a
    power cut).

W6  A failed sync is StoreFailed for every caller. Group commit syncs through a descriptor of its own: the kernel
    reports a failed write-back once for each open file.
W7  What is about to be synced is given to the disk at once (POSIX_FADV_DONTNEED begins to write dirty pages): it works on
    it while its effect is applied. Only a hint: the sync decides.

All methods but `extend_ahead` are called under the journal's lock.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from zlib import crc32

from journal.core.entry.effects import Effect, Packed
from journal.core.limits import NEVER, RECORD_BYTES_MAX
from journal.core.log.record import Encoder, encoder, extended
from journal.engine.files.posix import (
    durable_names,
    open_file,
    storage_error,
    sync_directory,
    sync_file,
    write_all,
    write_zeros,
)
from journal.engine.log import replayed_tail
from journal.engine.log.reader import SEGMENT_BYTES_FIRST, UNNAMED, RecordPlace, list_segments, segment_path
from journal.engine.log.segment import OpenedSegment
from journal.errors import Invalid, StorageError, StoreFailed, StoreFull

log = logging.getLogger("journal.log")

STEP_MAX = 2 << 20
"""Zeroing 2 MiB and syncing it takes about as long as ten record syncs; smaller steps come too often."""
RESERVE = 128 << 10
ROLL_BYTES = 8 << 20
"""A plain queue changes to a recycled segment at this size, so its log stays at three or four such files."""
SPARE_MAX = 2
SPARE_BYTES_MAX = 64 << 20
BUFFER_MAX = 64 << 10


_unlink = partial(Path.unlink, missing_ok=True)


class LogWriter:
    """The log of a journal's active generation; it goes on in the next one (`move_to`)."""

    def __init__(
        self, directory: Path, namespace: bytes, segment_bytes_max: int, base: int = 0,
        remove: Callable[[Path], None] = _unlink,
    ) -> None:  # fmt: skip
        """`remove` removes a file of records that are no longer needed; it may overwrite them first."""
        self.directory = directory
        self.namespace = namespace
        self.base = base
        """The place of its first record over all generations (core.cursor); offsets here are such places."""
        self.segment_bytes_max = segment_bytes_max
        self.fd = -1
        self.sync_fd = -1
        """The same file once more, for group commit (W6)."""
        self.first = 0
        self.position = 0
        """Where the next record goes."""
        self.allocated = 0
        self._free_until = 0
        """Up to this position a record may be written without a look at any limit; 0: look first."""
        self.next_offset = base
        self.synced = base - 1
        """The last offset that is durable."""
        self.stamp = 0
        """The last timestamp: the next one is not less, also when the wall clock is set back."""
        self.bytes_written = 0
        self.bytes_limit = 1 << 63
        """What may be written until the next checkpoint, as the rows have room."""
        self._pending: list[bytes] = []
        """Records that the OS does not have yet; they go to `_pending_at`."""
        self._pending_at = 0
        self._pending_first = 0
        self._pending_bytes = 0
        self.keep_from = NEVER
        """Records from this offset on stay, whatever checkpoints have passed: a consumer follows the log."""
        self.passed_to = base
        """Two checkpoints have passed all places before this one (W5)."""
        self.is_pinned = False
        """Segments are being compacted: none is reused or removed meanwhile."""
        self._encode = encoder(namespace)
        self._remove = remove
        self._segments: list[int] = []
        self._spares: list[Path] = []
        self._retired: list[int] = []
        self._extending = threading.Lock()

    # -- opening ----------------------------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the first segment, durable, and leave it closed."""
        fd, sync_fd, _ = self._new_segment(0)
        os.close(fd)
        os.close(sync_fd)

    def move_to(self, begun: OpenedSegment, base: int) -> None:
        """Go on in the next generation; all records are durable, and no sync is under way."""
        self.close()
        self.directory, self.fd, self.sync_fd, self.allocated = begun
        self.base = self.next_offset = self.passed_to = base
        self.synced = base - 1
        self.first = self.position = self._free_until = self.bytes_written = 0
        self.bytes_limit = 1 << 63
        self.is_pinned = False
        self._segments, self._spares = [0], []

    def look_at(self, directory: Path, base: int, offset: int = 0) -> None:
        """For a log that another process writes: where it is, and up to where its rows have applied it."""
        self.directory, self.base = directory, base
        self.next_offset = base + offset
        self.synced = self.next_offset - 1

    def open_at(self, end: RecordPlace, replayed_from: RecordPlace, is_clean: bool) -> None:
        """Go on at the end that recovery found; what was replayed is made durable first."""
        self._segments = list_segments(self.directory)  # older ones go when checkpoints of ours have passed them (W5)
        self.first, self.next_offset, self.position = end.segment, self.base + end.offset, end.position
        _, self.fd, self.sync_fd, self.allocated = OpenedSegment.open(self.directory, end.segment)
        self.synced = self.next_offset - 1
        if is_clean and replayed_from == end:
            return
        try:
            replayed_tail.harden(self.directory, self.namespace, self._segments, end, replayed_from)
        except OSError as e:
            raise storage_error(e, f"cannot make the end of the log in {self.directory} durable") from e

    # -- appending --------------------------------------------------------------------------------------------------

    def append(
        self, effect: Effect | Packed, count: int, now: int, is_essential: bool, is_lazy: bool, is_awaited: bool,
        encode: Encoder | None = None,
    ) -> int:  # fmt: skip
        """
        Write a record and return its first offset. A refusal changes nothing (W1).

        Lazy: the record may stay in our buffer. Awaited: its sync comes next, so the disk shall begin with it. `encode` makes the record;
        each journal that shares the log has its own.
        """
        self.stamp = now = now if now > self.stamp else self.stamp
        if isinstance(effect, Packed):
            return self._append_packed(effect, count, now, is_awaited, encode or self._encode)
        offset = self.next_offset
        record = (encode or self._encode)(offset - self.base, now, offset - self.synced, count, effect)
        size = len(record)
        if self.position + size > self._free_until:
            self._look_for_room(size, is_essential)
        position = self.position
        if is_lazy or self._pending:
            self._buffer(record, is_lazy)
        else:
            try:
                if os.pwrite(self.fd, record, position) != size:
                    write_all(self.fd, record, position)
                if is_awaited:
                    os.posix_fadvise(self.fd, position, size, os.POSIX_FADV_DONTNEED)  # W7
            except OSError as e:
                raise storage_error(e, "cannot write to the log") from e
        self.position = position + size
        self.bytes_written += size
        self.next_offset = offset + count
        return offset

    def _append_packed(self, packed: Packed, count: int, now: int, is_awaited: bool, encode: Encoder) -> int:
        """Write the record of a load piece by piece; never lazy. What is written of one that fails is a torn record."""
        offset = self.next_offset
        record = encode(offset - self.base, now, offset - self.synced, count, packed.effect)
        head = extended(record, packed.values, packed.size)
        size = len(head) + packed.size + 4
        self.flush()
        self._look_for_room(size, False, is_load=True)
        at, crc = self.position, 0
        try:
            for piece in chain((head,), packed.pieces):
                write_all(self.fd, piece, at)
                if is_awaited:
                    os.posix_fadvise(self.fd, at, len(piece), os.POSIX_FADV_DONTNEED)  # W7
                at, crc = at + len(piece), crc32(piece, crc)
            assert at + 4 == self.position + size
            write_all(self.fd, crc.to_bytes(4, "big"), at)
        except OSError as e:
            raise storage_error(e, "cannot write to the log") from e
        self.position += size
        self.bytes_written += size
        self.next_offset = offset + count
        return offset

    def _buffer(self, record: bytes, is_lazy: bool) -> None:
        """Keep a record for a later write, or write it with those that were kept."""
        if self._pending_bytes + len(record) > BUFFER_MAX:
            self.flush()
        if not self._pending:
            self._pending_at, self._pending_first, self._pending_bytes = self.position, self.next_offset, 0
        self._pending.append(record)
        self._pending_bytes += len(record)
        if not is_lazy:
            try:
                self.flush()
            except StorageError:
                self._pending_bytes -= len(self._pending.pop())
                raise

    def resume(self, end: RecordPlace) -> None:
        """Go on where the records in the OS end, after an interrupted append."""
        if self._pending or end.segment != self.first or end.position < self.position:
            raise StoreFailed(f"the log in {self.directory} ends at {end}, not at {self.end}; reopen the store")
        self.next_offset, self.position = self.base + end.offset, end.position

    def flush(self) -> None:
        """Hand what is buffered to the OS."""
        if self._pending:
            try:
                write_all(self.fd, b"".join(self._pending), self._pending_at)
            except OSError as e:
                raise storage_error(e, "cannot write to the log") from e
            self._pending.clear()
            self._pending_bytes = 0

    @property
    def last_in_os(self) -> int:
        """The last offset that the OS has."""
        return (self._pending_first if self._pending else self.next_offset) - 1

    @property
    def oldest(self) -> int:
        """The first offset of this generation that is kept; segments before it may be used again at any time."""
        return self._segments[0] if self._segments else 0

    @property
    def end(self) -> RecordPlace:
        """Where the next record goes."""
        return RecordPlace(self.next_offset - self.base, self.first, self.position)

    # -- space ------------------------------------------------------------------------------------------------------

    def limit(self, *, rows_bytes: int | None = None, segment_bytes: int | None = None) -> None:
        """Change how much may be written until the next checkpoint, or to a segment."""
        if rows_bytes is not None:
            self.bytes_limit = self.bytes_written + rows_bytes
        if segment_bytes is not None:
            self.segment_bytes_max = segment_bytes
        self._free_until = 0

    def _look_for_room(self, size: int, is_essential: bool, *, is_load: bool = False) -> None:
        """Find out how far we may write without another look, and prepare space when that is not enough (W2)."""
        if self.bytes_written + size > self.bytes_limit and not is_essential:
            raise StoreFull("the rows are about to fill their map: wait for a checkpoint, or open with more map_bytes")
        end = self.position + size
        if end > self.allocated - RESERVE or end > self.segment_bytes_max:
            self._make_room(size, is_essential, is_load)
        self._free_until = min(
            self.allocated - RESERVE, self.segment_bytes_max, self.position + self.bytes_limit - self.bytes_written
        )

    def _make_room(self, size: int, is_essential: bool, is_load: bool) -> None:
        """Prepare space for a record (W2, W4), in this segment or the next."""
        if size > RECORD_BYTES_MAX:
            raise Invalid(f"the change takes {size} bytes in the log, more than {RECORD_BYTES_MAX}: split the group")
        if self.position and self.position + size > self.segment_bytes_max:
            try:
                self.roll()
            except StoreFull:
                if not is_essential or self.position + size >= self.allocated:
                    raise
                return
        with self._extending:
            while self.position + size > self.allocated - RESERVE:
                try:
                    self._extend(self.position + size + RESERVE, is_load=is_load)
                except OSError as e:
                    if is_essential and self.position + size < self.allocated:
                        return
                    raise storage_error(e, f"no room for the log in {self.directory}") from e

    def _extend(self, at_least: int, *, is_load: bool = False) -> None:
        step = min(max(SEGMENT_BYTES_FIRST, self.allocated), STEP_MAX)
        end = -(-max(self.allocated + step, at_least) // SEGMENT_BYTES_FIRST) * SEGMENT_BYTES_FIRST
        try:
            if is_load:
                os.posix_fallocate(self.fd, self.allocated, end - self.allocated)
            else:
                write_zeros(self.fd, self.allocated, end)
        except OSError:
            self._give_back()
            raise
        sync_file(self.fd, segment_path(self.directory, self.first))
        self.allocated = end

    def _give_back(self) -> None:
        """There was no room for the whole extension: give back what was allocated of it."""
        try:
            os.ftruncate(self.fd, self.allocated)
        except OSError as e:
            log.warning("log_room_not_given_back directory=%s error=%s", self.directory, e)

    def extend_ahead(self) -> None:
        """Prepare space before it is needed; called without the journal's lock, by one thread."""
        with self._extending:
            is_low = self.allocated - RESERVE - self.position < min(self.allocated, STEP_MAX) // 4
            if is_low and self.position + STEP_MAX < self.segment_bytes_max:
                try:
                    self._extend(0)
                except OSError as e:
                    log.warning("log_extension_failed error=%s", e)

    def roll(self) -> None:
        """Go on in the next segment (W3)."""
        self.flush()
        with self._extending:
            sync_file(self.fd, segment_path(self.directory, self.first))
            fd, sync_fd, allocated = self._new_segment(self.next_offset - self.base)
            self._retired += (self.fd, self.sync_fd)
            self.fd, self.sync_fd, self.allocated = fd, sync_fd, allocated
            self.first, self.position, self._free_until = self.next_offset - self.base, 0, 0
            self._segments.append(self.first)
            self.synced = self.next_offset - 1

    def _new_segment(self, first: int) -> tuple[int, int, int]:
        """A file under the new name, with synced space, its name durable (W3)."""
        path = segment_path(self.directory, first)
        unnamed = self.directory / UNNAMED
        fd = sync_fd = -1
        try:
            if self._spares:
                os.rename(self._spares[0], unnamed)  # the oldest, so that the log has no hole
                self._spares.pop(0)
                fd = open_file(unnamed)
            else:
                self._remove(unnamed)  # a crash may have left a recycled one
                fd = open_file(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            allocated = os.fstat(fd).st_size
            if allocated < SEGMENT_BYTES_FIRST:
                write_zeros(fd, allocated, SEGMENT_BYTES_FIRST)
                allocated = SEGMENT_BYTES_FIRST
                sync_file(fd, unnamed)
            sync_fd = open_file(unnamed)
            with durable_names(self.directory):
                os.rename(unnamed, path)
        except BaseException as e:
            for each in (fd, sync_fd):
                if each >= 0:
                    os.close(each)
            if not isinstance(e, StoreFailed):  # or nothing more is written, and the next open looks at what is there
                self._take_back(unnamed)
                self._take_back(path)
            if isinstance(e, OSError):
                raise storage_error(e, f"cannot make the log segment {path}") from e
            raise
        return fd, sync_fd, allocated

    def _take_back(self, path: Path) -> None:
        """A segment that is not used after all."""
        try:
            self._remove(path)
        except (OSError, StorageError) as e:
            log.warning("log_segment_not_removed path=%s error=%s", path, e)

    def close_retired(self) -> None:
        """Close the descriptors of earlier segments; only the thread that may sync calls it, so no sync is under way."""
        while self._retired:
            os.close(self._retired.pop())

    def passed(self, offset: int) -> None:
        """Two checkpoints have passed this offset: segments before it that no consumer follows are reused or removed (W5)."""
        self.passed_to = max(self.passed_to, offset)
        offset = self.base if self.is_pinned else min(offset, self.keep_from)
        offset -= self.base
        while len(self._segments) > 1 and self._segments[1] <= offset:
            self._spares.append(segment_path(self.directory, self._segments.pop(0)))
        self._drop_spares(SPARE_MAX)

    def closed(self) -> list[int]:
        """The first offsets of the segments that are no longer written to, and of the one that follows them (W5)."""
        return [first for first in self._segments if self.base + first <= self.passed_to]

    def has_unwanted(self) -> bool:
        """Whether there is a segment that no consumer follows: checkpoints that pass it would remove it."""
        return len(self._segments) > 1 and self.base + self._segments[1] <= self.keep_from

    def replaced(self, first: int) -> None:
        """A segment was removed, after another one had taken its records in (compaction)."""
        self._segments.remove(first)

    def drop_spares(self) -> None:
        """The disk is full: give the room of recycled segments back."""
        self._drop_spares(0)

    def _drop_spares(self, keep: int) -> None:
        """Remove the oldest segments first, so that the log never has a hole."""
        while self._spares and (len(self._spares) > keep or os.stat(self._spares[0]).st_size > SPARE_BYTES_MAX):
            path = self._spares.pop(0)
            try:
                self._remove(path)
                sync_directory(self.directory)  # or a power cut may take a later one and leave this
            except StoreFailed:
                raise
            except (OSError, StorageError) as e:
                log.warning("log_segment_not_removed path=%s error=%s", path, e)

    def close(self) -> None:
        """Close all descriptors; nothing is written."""
        self.close_retired()
        for fd in (self.fd, self.sync_fd):
            if fd >= 0:
                os.close(fd)
        self.fd = self.sync_fd = -1
