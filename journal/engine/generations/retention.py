"""
Retention: feed consumers hold the log, and `compact` keeps it for later followers, but only up to the journal's limits,
if it has any (`log_age_max`, `log_bytes_max`).

At each checkpoint the segments that are kept for followers only are looked at, oldest first, over all generations. One
whose newest record is too old, or that is too much, is removed whole: a consumer that still needs it gets CursorUnavailable.

I1  Nothing that recovery needs is removed: `floor` is raised, and a segment is freed as any other is, when checkpoints
    have passed it.
I2  A flag `feed` is raised when a consumer loses records, and at an earlier checkpoint: when WARN of the limit is
    reached, or when it is passed all at once. What is kept for later followers is removed without a flag.
I3  Records that followers need are not kept longer for being in the open segment: it is closed when the first of them has
    been there for a part (1 in ROLLS) of `log_age_max`. So they go when they are older by that much, and by what passes
    until the next checkpoint.
I4  Parts of the log that no consumer follows any more are removed soon, also when no change makes a checkpoint due.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import NamedTuple, Protocol

from journal.core.entry import effects as fx
from journal.core.limits import NEVER
from journal.core.log.cursor import base_of, cursor_of
from journal.core.log.record import HEAD
from journal.engine.feed.consumers import LogConsumers
from journal.engine.files.posix import open_file
from journal.engine.generations.generations import Generations
from journal.engine.log.group_commit import GroupCommit
from journal.engine.log.reader import list_segments, segment_path
from journal.engine.log.writer import LogWriter
from journal.engine.runtime.background import Keeper
from journal.engine.runtime.clock import EngineTime
from journal.engine.runtime.host import CommittingHost, WritingHost
from journal.engine.state.apply import JournalState
from journal.errors import StorageError, StoreFull

log = logging.getLogger("journal.retention")

FLAG = "feed"
WARN = 0.8
FREE_S = 1.0
ROLLS = 4
"""Each segment has at least 256 KiB: more of them would take more than they give back earlier."""


class Piece(NamedTuple):
    """A segment that consumers hold."""

    at: int
    """The place of its first record."""
    next_at: int
    """The place behind its last one."""
    bytes: int
    newest: int
    """A date that no record in it is younger than: when the next segment began."""


class RetentionHost(WritingHost, CommittingHost, Protocol):
    """A journal whose log is kept and freed."""


class Retention:
    """The retention of one journal. On the keeper."""

    def __init__(
        self, host: RetentionHost, log: LogWriter, state: JournalState, consumers: LogConsumers, generations: Generations, *,
        commit: GroupCommit, keeper: Keeper, time: EngineTime,
    ) -> None:  # fmt: skip
        self.floor = 0
        """Places before this are kept for no consumer."""
        self._host, self._log, self._state = host, log, state
        self._consumers, self._generations = consumers, generations
        self._commit, self._keeper, self._time = commit, keeper, time
        self._pins: list[int] = []
        """Changes from these places on are being copied (backup B2): they stay, whatever the limits say. Under the lock."""
        self._is_freeing = self._is_warned = False
        self._rolled = (-1, NEVER)
        """The place where the last checkpoint that closed a segment began the next one, and when."""
        self._closed: dict[int, list[Piece]] = {}
        """The pieces of closed generations, looked at once: with `compact` there may be thousands of them."""

    def replaced(self, order: int) -> None:
        """Compaction has changed the files of a generation. Under the lock."""
        self._closed.pop(order, None)

    # -- what is held, under the lock -------------------------------------------------------------------------------------

    def pin(self) -> int:
        """Keep all from here on until `unpin`, whatever the limits say; the place. Under the lock."""
        log = self._log
        pin = min(log.keep_from, log.base + log.first)
        self._pins.append(pin)
        self.hold()
        return pin

    def unpin(self, pin: int) -> None:
        """Under the lock."""
        self._pins.remove(pin)
        self.hold()
        self.free_soon()

    def held_from(self) -> int:
        """The place from which on followers need every change. Under the lock."""
        return max(min(self._consumers.keep_from(), *self._pins, NEVER), self.floor)

    def hold(self) -> bool:
        """Keep what followers have not acknowledged, as far as the settings allow; whether less is kept than before. Under the lock."""
        before, self._log.keep_from = self._log.keep_from, self.keep_from()
        return self._log.keep_from > before

    def keep_from(self) -> int:
        """The place from which on records stay, compacted or not. Under the lock."""
        return self.floor if self._host.settings.compact else self.held_from()

    def expected(self) -> tuple[int, bool]:
        """From where on the log should be kept, and whether consumers may have lost changes. Under the lock."""
        return self.keep_from(), self._may_lose()

    def _may_lose(self) -> bool:
        """Whether consumers may have lost changes: there is a limit, or there was one, as the flag shows (I2). Under the lock."""
        settings = self._host.settings
        if settings.log_age_max is not None or settings.log_bytes_max is not None:
            return True
        return any(name.rpartition(b":")[2] == FLAG.encode() for name, _ in self._state.rows(b"flags"))

    def is_roll_due(self) -> bool:
        """Whether the open segment shall be closed for the age of what followers want of it (I3). Under the lock."""
        writer, age_max = self._log, self._host.settings.log_age_max
        if age_max is None or not writer.position or writer.keep_from >= writer.next_offset:
            return False
        try:
            began = _date_in(writer.fd, writer.first) + self._state.steps.since(writer.base + writer.first)
            return self._time.now() - began >= age_max // ROLLS
        except OSError as e:
            log.warning("log_age_unknown journal=%s error=%s", self._host.name, e)
            return False

    def rolled(self) -> None:
        """A checkpoint has closed the segment. Under the lock."""
        self._rolled = self._log.next_offset, self._time.now()

    # -- freeing ----------------------------------------------------------------------------------------------------------

    def free_soon(self) -> None:
        """Schedule `free` if the log has parts that no consumer follows any more (I4). Under the lock."""
        if not self._is_freeing and self._has_unwanted():
            self._is_freeing = True
            self._keeper.after(FREE_S, self.free)

    def free(self) -> None:
        """Remove the parts of the log that no consumer follows, although nothing changes (I4). On the keeper."""
        host = self._host
        self._is_freeing = False
        try:
            with self._commit.io, host.lock:
                if host.trouble is not None or not self._has_unwanted():
                    return
                with self._commit.final():
                    self._log.passed(self._log.passed_to)  # what needs no checkpoint first: the disk may be full
            self._generations.look_around()
            for _ in range(2):  # checkpoints V3
                with host.lock:
                    if not self._log.has_unwanted():
                        return
                host.checkpoint()
        except StorageError as e:
            log.warning("log_kept journal=%s error=%s", host.name, e)  # the next checkpoint does it, or the next open

    def _has_unwanted(self) -> bool:
        """Whether the log has a part that no consumer follows. Under the lock."""
        keep_from = self._log.keep_from
        return self._log.has_unwanted() or any(
            k.has_log and k.last is not None and base_of(k.order) + k.last < keep_from for k in self._generations.kept
        )

    # -- limits -----------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Raise the floor as far as the settings say. Without the lock."""
        host, writer = self._host, self._log
        settings = host.settings
        if settings.log_age_max is None and settings.log_bytes_max is None:
            return
        with host.lock:
            if host.trouble is not None or writer.keep_from >= writer.next_offset or self._pins:
                return
            kept_from, now = writer.keep_from, self._time.now()
            held_from = self.held_from()
            kept = self._generations.kept
            since = self._state.steps.since
        pieces: list[Piece] = []
        for k, following in zip(kept, [*kept[1:], None], strict=True):
            if not k.has_log:
                self._closed.pop(k.order, None)
            elif k.last is None or following is None:
                pieces += self._open_pieces(k.order)
            else:
                if k.order not in self._closed:
                    self._closed[k.order] = self._closed_pieces(k.order, k.last, following.began)
                pieces += self._closed[k.order]
        # An age is a duration: dates are moved by the steps of the clock since.
        held = [
            piece._replace(newest=piece.newest + since(piece.next_at)) for piece in pieces if piece.next_at > kept_from
        ]
        floor = _floor(held, now, settings.log_age_max, settings.log_bytes_max)
        if kept_from < floor <= held_from:  # no consumer follows it: it was kept for later followers
            with host.lock:
                self.floor = floor
                self.hold()
                self.free_soon()
        if floor > held_from and self._is_warned:
            self.floor = floor
            self._raise(
                f"feed consumers have lost the changes from {cursor_of(held_from)} to before {cursor_of(floor)}: the log "
                "was kept for them longer, or grew larger, than log_age_max and log_bytes_max allow"
            )
            with host.lock:
                self.hold()
            log.warning("log_let_go journal=%s from=%d to=%d", host.name, held_from, floor)
            return
        soon = _floor(held, now, _share(settings.log_age_max), _share(settings.log_bytes_max))
        if soon > held_from and not self._is_warned:
            self._is_warned = True
            more = ", and have lost those before" if self._consumers.keep_from() < held_from else ""
            self._raise(
                f"feed consumers are about to lose the changes from {cursor_of(held_from)} on{more}: let them catch up, "
                "remove them, or raise log_age_max and log_bytes_max"
            )
        elif soon <= held_from:
            self._is_warned = False

    def _open_pieces(self, order: int) -> list[Piece]:
        """Those of the active generation; a segment that has no record yet began when it was made."""
        place, date = self._rolled
        pieces = _pieces(base_of(order), self._host.directory(order) / "log")
        return [each._replace(newest=min(each.newest, date)) if each.next_at == place else each for each in pieces]

    def _closed_pieces(self, order: int, last: int, ended: int) -> list[Piece]:
        pieces = _pieces(base_of(order), self._host.directory(order) / "log")
        if pieces:
            pieces[-1] = pieces[-1]._replace(next_at=base_of(order) + last + 1, newest=ended)
        return pieces

    def _raise(self, message: str) -> None:
        host = self._host
        with host.lock:
            if host.trouble is not None:
                return
            now = host.enter()
            try:
                host.write_unawaited(fx.Raise(FLAG, message, now), 1, now)
            except StoreFull as e:
                log.warning("flag_not_raised journal=%s error=%s", host.name, e)


def _share(limit: int | None) -> int | None:
    return None if limit is None else int(limit * WARN)


def _floor(held: list[Piece], now: int, age_max: int | None, bytes_max: int | None) -> int:
    """The place before which nothing is kept: behind the last piece that is too old or too much."""
    floor = 0
    total = sum(piece.bytes for piece in held)
    for piece in held:
        is_old = age_max is not None and now - piece.newest > age_max
        is_much = bytes_max is not None and total > bytes_max
        if piece.next_at == NEVER or not (is_old or is_much):  # the open one is never removed
            break
        floor = piece.next_at
        total -= piece.bytes
    return floor


def _pieces(base: int, directory: Path) -> list[Piece]:
    """The segments of one generation's log; the last one, which may be open, counts as of now."""
    segments = list_segments(directory)
    pieces = []
    for first, following in zip(segments, [*segments[1:], None], strict=True):
        try:
            size = os.stat(segment_path(directory, first)).st_size
            date = NEVER if following is None else _first_date(segment_path(directory, following), following)
        except FileNotFoundError:
            continue  # it went since it was listed
        pieces.append(Piece(base + first, NEVER if following is None else base + following, size, date))
    return pieces


def _first_date(path: Path, first: int) -> int:
    """The timestamp of a segment's first record; one that has none is as young as can be."""
    fd = open_file(path, os.O_RDONLY)
    try:
        return _date_in(fd, first)
    finally:
        os.close(fd)


def _date_in(fd: int, first: int) -> int:
    """The same of an open file. One that was used before, and has no record yet, has a record of an older segment there."""
    head = os.pread(fd, HEAD.size, 0)
    if len(head) < HEAD.size:
        return NEVER
    offset, _, date = HEAD.unpack(head)[:3]
    return date if date and offset == first else NEVER
