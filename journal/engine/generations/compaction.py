"""
Compaction: with `compact` a journal's log stays when no consumer follows it, and of each key the last change stays.

After a checkpoint, when enough has come to gain something, the keeper makes a pass over all segments that are closed and
that every consumer has acknowledged, from the newest to the oldest over all generations, in slices of milliseconds.
Neighbours that have become small are put together.

M1  Only what two checkpoints have passed (writer W5) and every consumer's durable position (consumers H1) is compacted; the
    latter is looked at again in the moment when a file takes the place of others.
M2  A new file is durable before it gets the name of the first segment that it stands for; that is the moment it counts,
    and the old and the new file are both good there. Then the others go, oldest first, each removal durable before the
    next: so at any moment, and after a crash at any moment, the files in the directory hold every offset (reader G3).
    Nothing has to be finished by the next open; what is left of the others is compacted by the next pass.
M3  A pass that fails (a full disk, a damaged segment) leaves the log as it is.
M4  `LogWriter` and `Retention` let nothing go that a pass is reading: the log is pinned. A closed generation's log may go
    under it, as a whole; then the pass ends.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Generator, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import NamedTuple, Protocol

from journal.core.log.compaction_rule import Latest
from journal.core.log.cursor import base_of
from journal.core.settings import MERGED
from journal.core.values import Compacted
from journal.engine.files.disposal import overwrite, remove_left
from journal.engine.files.posix import open_file, storage_error, sync_directory
from journal.engine.generations.generations import Generations
from journal.engine.generations.retention import Retention
from journal.engine.log.compactor import Scanned, condense, scan, size_of
from journal.engine.log.group_commit import GroupCommit
from journal.engine.log.reader import CONDENSED, list_segments, segment_path
from journal.engine.log.writer import ROLL_BYTES, LogWriter
from journal.engine.runtime.background import Keeper
from journal.engine.runtime.host import CommittingHost
from journal.errors import JournalError, Refused, StoreClosed

log = logging.getLogger("journal.compaction")

SLICE_S, PAUSE_S = 0.001, 0.006
"""A millisecond of work in seven: the interpreter's lock is the callers' for the rest."""
HURRY_S = 0.001
"""The pause when more than HURRY_BYTES wait: the log must not grow faster than it is compacted."""
HURRY_BYTES = 64 << 20
CALL_S = 0.02
"""A slice when a caller waits for the pass."""
RETRY_S = 60.0
SAVES_AT_LEAST = 8
"""A file by itself is written anew when it loses this part of its bytes."""
DIRTY_SHARE = 2
"""A pass reads everything, so it waits until this part of what was compacted before has come: each byte is read a
bounded number of times."""

Work = Generator[None, None, None]


class _Stopped(Exception):
    """The pass cannot go on; nothing is wrong."""


class CompactingHost(CommittingHost, Protocol):
    """A journal whose log is compacted."""

    def check_writable(self) -> None: ...


class CompactedPart(NamedTuple):
    """The segments of one generation that may be compacted."""

    order: int
    directory: Path
    pieces: list[tuple[int, int]]
    """First offset and the offset behind, oldest first."""


class Compaction:
    """The compaction of one journal. On the keeper, but for `now`."""

    def __init__(
        self, host: CompactingHost, log: LogWriter, retention: Retention, generations: Generations, *,
        commit: GroupCommit, keeper: Keeper,
    ) -> None:  # fmt: skip
        self.passes = self.records_removed = self.bytes_saved = 0
        self._host, self._log, self._commit, self._keeper = host, log, commit, keeper
        self._retention, self._generations = retention, generations
        self._calling = threading.Lock()
        self._work: Work | None = None
        self._is_waited_for = self._is_tidy = False
        self._pause_s = PAUSE_S
        self._not_before = 0.0
        self._result = Compacted(0, 0, 0, 0)
        self._writing: Path | None = None
        self._clean_bytes = 0
        self._clean: dict[tuple[int, int], int] = {}
        """The segments that the last pass left, by order and first offset: the offset behind each."""
        self._closed: dict[int, list[tuple[int, int]]] = {}
        """The pieces of closed generations, which change only here; listed once."""

    # -- when -----------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """After a checkpoint: begin a pass when it is worth it."""
        if not self._host.settings.compact or self._work is not None or monotonic() < self._not_before:
            return
        try:
            dirty = self._dirty()
        except OSError as e:
            self._failed(e)
            return
        if dirty >= max(self._unit() // 2, self._clean_bytes // DIRTY_SHARE):
            self._pause_s = HURRY_S if dirty > HURRY_BYTES else PAUSE_S
            self._begin(is_forced=False)
            self._keeper.after(0, self._slice)

    def _unit(self) -> int:
        """How large a file shall become."""
        return min(self._host.settings.segment_bytes_max, ROLL_BYTES)

    def _dirty(self) -> int:
        """The bytes that no pass of this opening has seen."""
        return sum(
            os.stat(segment_path(part.directory, first)).st_size
            for part in self._parts()
            for first, behind in part.pieces
            if self._clean.get((part.order, first)) != behind
        )

    def _parts(self) -> Iterator[CompactedPart]:
        """What may be compacted now (M1), the newest generation first."""
        with self._host.lock:
            held, floor = self._retention.held_from(), self._retention.floor
            segments, kept = self._log.closed(), self._generations.kept
        for k in reversed(kept):
            if not k.has_log:
                continue
            directory = self._host.directory(k.order) / "log"
            if k.last is None:
                pieces = list(pairwise(segments))
            elif k.order not in self._closed:
                firsts = list_segments(directory)
                pieces = self._closed[k.order] = list(zip(firsts, [*firsts[1:], k.last + 1], strict=True))
            else:
                pieces = self._closed[k.order]
            base = base_of(k.order)
            yield CompactedPart(k.order, directory, [piece for piece in pieces if floor < base + piece[1] <= held])

    # -- slices ---------------------------------------------------------------------------------------------------------

    def _begin(self, *, is_forced: bool) -> None:
        host = self._host
        if not self._is_tidy:  # what a crash may have left
            self._is_tidy = True
            for k in self._generations.kept:
                remove_left(host.directory(k.order) / "log" / CONDENSED, host.settings.wipe)
        self._log.is_pinned = True
        self._result = Compacted(0, 0, 0, 0)
        self._work = self._pass(is_forced=is_forced)

    def _slice(self) -> None:
        """A moment of work in the background."""
        if self._work is None or self._is_waited_for:
            return
        try:
            if not self._advance(SLICE_S):
                self._keeper.after(self._pause_s, self._slice)
        except (OSError, JournalError) as e:
            self._failed(e)

    def _advance(self, seconds: float) -> bool:
        """Go on for a while; whether the pass is over."""
        if self._work is None:
            raise self._host.trouble or StoreClosed(
                f"the journal {self._host.name} was closed while its log was compacted"
            )
        until = monotonic() + seconds
        try:
            with self._commit.final():
                for _ in self._work:
                    if monotonic() >= until:
                        return False
        except (_Stopped, FileNotFoundError) as e:
            log.info("compaction_ended_early journal=%s reason=%s", self._host.name, e)
        except BaseException:
            self.close()
            raise
        self.close()
        return True

    def close(self) -> None:
        """End the pass, if there is one. What it was writing goes."""
        work, self._work = self._work, None
        if work is None:
            return
        work.close()
        self._log.is_pinned = False
        if self._writing is not None:
            remove_left(self._writing / CONDENSED, self._host.settings.wipe)
            self._writing = None

    def _failed(self, error: Exception) -> None:
        self._not_before = monotonic() + RETRY_S
        log.warning("compaction_postponed journal=%s error=%s", self._host.name, error)

    def now(self) -> Compacted:
        """Compact all that may be, up to the last change; what it came to. Not on the keeper."""
        self._host.check_writable()
        keeper = self._keeper
        with self._calling:
            self._is_waited_for = True
            try:
                keeper.call(self._begin_now)
                while not keeper.call(partial(self._advance, CALL_S)):
                    pass
                return self._result
            except OSError as e:
                raise storage_error(e, f"cannot compact the log of journal {self._host.name}") from e
            finally:
                self._is_waited_for = False

    def _begin_now(self) -> None:
        """On the keeper: close the open segment, and let two checkpoints pass it (M1)."""
        host = self._host
        if host.trouble is not None:
            raise host.trouble
        if not host.settings.compact:
            who, how = f"journal {host.name} keeps its log", "Declare it with compact=True"
            if host.name == MERGED:
                who, how = "the merged journals keep their log", "Call store.merged(compact=True)"
            raise Refused(
                f"{who} for feed consumers only: there is nothing to compact. {how} to keep the last change of each key"
            )
        self.close()
        host.commit_then(lambda: self._log.roll() if self._log.position else None)
        host.commit_then()
        host.commit_then()
        self._begin(is_forced=True)

    # -- a pass ---------------------------------------------------------------------------------------------------------

    def _pass(self, *, is_forced: bool) -> Work:
        latest = Latest(os.urandom(16))
        clean: dict[tuple[int, int], int] = {}
        for part in list(self._parts()):
            group: list[Scanned] = []
            for first, behind in reversed(part.pieces):
                scanned = yield from scan(part.directory, first, behind, latest)
                if group and sum(each.bytes_kept for each in group) + scanned.bytes_kept > self._unit():
                    clean |= yield from self._put_together(part, group, is_forced=is_forced)
                    group = []
                group.insert(0, scanned)
            if group:
                clean |= yield from self._put_together(part, group, is_forced=is_forced)
        self._clean, self._clean_bytes = clean, self._result.bytes_after
        self.passes += 1
        log.info("compacted journal=%s records=%d left=%d", self._host.name, *self._result[:2])

    def _put_together(
        self, part: CompactedPart, group: list[Scanned], *, is_forced: bool
    ) -> Generator[None, None, dict[tuple[int, int], int]]:
        """One file for a group of neighbours, if that is worth it; what is there then, as `_clean` has it."""
        records, size = sum(each.records for each in group), sum(each.bytes for each in group)
        kept, rest = sum(each.kept for each in group), sum(each.bytes_kept for each in group)
        is_smaller = size - size_of(rest) >= size // SAVES_AT_LEAST
        if not (is_smaller or len(group) > 1 or (is_forced and kept < records)):
            self._count(records, records, size, size)
            return {(part.order, each.first): each.behind for each in group}
        is_open = part.order == self._generations.kept[-1].order
        self._writing = part.directory
        made, written_bytes, written = yield from condense(
            part.directory, group, self._log.namespace, is_sparse=not is_open
        )
        yield from self._replace(part, group, made)
        self._count(records, written, size, written_bytes)
        return {(part.order, group[0].first): group[-1].behind}

    def _count(self, records_before: int, records_after: int, bytes_before: int, bytes_after: int) -> None:
        found = (records_before, records_after, bytes_before, bytes_after)
        self._result = Compacted(*map(sum, zip(self._result, found, strict=True)))
        self.records_removed += records_before - records_after
        self.bytes_saved += bytes_before - bytes_after

    def _replace(self, part: CompactedPart, group: list[Scanned], made: Path) -> Work:
        """Put the new file in the place of the group (M2)."""
        lock, writer = self._host.lock, self._log
        paths = [segment_path(part.directory, each.first) for each in group]
        old = [open_file(path) for path in paths] if self._host.settings.wipe else []
        try:
            with lock:
                self._check_still(part, group[-1].behind)
                os.rename(made, paths[0])
                self._closed.pop(part.order, None)
                self._retention.replaced(part.order)
            sync_directory(part.directory)
            for each, path in zip(group[1:], paths[1:], strict=True):
                os.unlink(path)
                with lock:
                    if writer.directory == part.directory:
                        writer.replaced(each.first)
                sync_directory(part.directory)
                yield
            for fd in old:
                overwrite(fd)  # a reader that still has one open finds nothing, and looks anew (log_tail U4)
        finally:
            for fd in old:
                os.close(fd)

    def _check_still(self, part: CompactedPart, behind: int) -> None:
        """Whether what was true when the pass began is still true; under the lock (M1, M4)."""
        host = self._host
        if host.trouble is not None:
            raise _Stopped(str(host.trouble))
        if not host.settings.compact:
            raise _Stopped("compact was set to False")
        if base_of(part.order) + behind > self._retention.held_from():
            raise _Stopped("a consumer wants what was about to be compacted")
        if not any(k.order == part.order and k.has_log for k in self._generations.kept):
            raise _Stopped(f"the log of generation {part.order} was let go")
