"""
Which commits of the generations' files belong together: the active one says it, in its own commit.

    meta of the active file   "parts" -> msgpack [tail, [[order, place, is empty], …]]: the last bytes of the log up to the place that is
                              applied, empty when its segment has none; the older generations with rows, as of this commit

A checkpoint commits the older files that have changed, then the active one (checkpoints V6). So a file that is at the place that the
active one names is as it was at that commit; one that is further is in the middle of a checkpoint, or a crash came there.

Q1  The place up to which a file has applied the log names its content: there are no two commits of one file at one place that differ
    in more than an index by buckets.
Q2  Files are of one moment if each older one is at the place that the active one names. A reader beside the owner begins
    transactions on all of them until they are.
Q3  No crash leaves an older file behind the place that the active one names, or a file that it does not name, or lets one go that had
    rows, or has rows, or what consumers have acknowledged, ahead of the log, or another log: then the files do not belong together, and
    the store is not opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgpack

from journal.core.log.cursor import base_of, cursor_of
from journal.engine.files.posix import open_file
from journal.engine.log.reader import RecordPlace, segment_path
from journal.errors import StoreDamaged

if TYPE_CHECKING:
    from journal.engine.log.writer import LogWriter
    from journal.engine.state.file import GenerationRows

NAME = b"parts"
APPLIED = b"applied"
TAIL_BYTES = 4


class CommittedFile(NamedTuple):
    """A generation's rows, as a transaction sees them."""

    order: int
    path: Path
    get: Callable[[bytes], bytes | None]
    """Reads a row of `meta`."""

    def applied_at(self) -> int:
        """The place of the first change that it does not have."""
        kept = self.get(APPLIED)
        if kept is None:
            return base_of(self.order)
        order, offset, *_ = msgpack.unpackb(kept)
        return base_of(order) + int(offset)

    def parts(self) -> dict[int, tuple[int, bool]]:
        """Of an active one: the places of the older ones, and whether these are empty."""
        kept = self.get(NAME)
        return {} if kept is None else {order: (at, is_empty) for order, at, is_empty in msgpack.unpackb(kept)[1]}

    def end(self) -> tuple[RecordPlace, bytes]:
        """Of an active one: the end of the log that it has applied, and the bytes in front of it."""
        applied, kept = self.get(APPLIED), self.get(NAME)
        if applied is None or kept is None:
            return RecordPlace(0, 0, 0), b""
        return RecordPlace(*msgpack.unpackb(applied)[1:4]), msgpack.unpackb(kept)[0]


def file_of(rows: GenerationRows) -> CommittedFile:
    """What its open transaction sees."""
    txn, meta = rows.file.txn, rows.meta
    return CommittedFile(rows.order, rows.file.path, lambda name: txn.get(name, db=meta))


def tail_of(log: LogWriter) -> bytes:
    """The last bytes of the last record in the open segment, which are its checksum; all is in the OS."""
    return os.pread(log.fd, TAIL_BYTES, log.position - TAIL_BYTES) if log.position else b""


def packed(older: Iterable[GenerationRows], tail: bytes) -> bytes:
    """The row that a commit of the active generation has."""
    return bytes(msgpack.packb((tail, [(rows.order, rows.applied_at, rows.is_empty) for rows in older])))


def difference(files: Sequence[CommittedFile]) -> str | None:
    """Why files, the active one last, are not of one moment; None when they are (Q2)."""
    *older, active = files
    if found := _impossible(files):
        return found
    parts = active.parts()
    for file in older:
        if file.applied_at() != parts[file.order][0]:
            return f"{file.path} has applied the log up to {cursor_of(file.applied_at())}, {active.path} was committed before"
    return None


def check(opened: Sequence[GenerationRows], log: Path) -> None:
    """Refuse files that do not belong together, when their owner opens them (Q3); `log`: the directory of the active log."""
    files = [file_of(rows) for rows in opened]
    if found := _impossible(files) or _other_log(files[-1], log):
        raise StoreDamaged(refusal(found))


def _other_log(active: CommittedFile, directory: Path) -> str | None:
    """Says that the record applied last is not in the log; None: it is, or its segment is missing, which readers of the log report."""
    end, tail = active.end()
    path = segment_path(directory, end.segment)
    if not tail or not path.exists():
        return None
    fd = open_file(path, os.O_RDONLY)
    try:
        is_same = os.pread(fd, len(tail), end.position - len(tail)) == tail
    finally:
        os.close(fd)
    return (
        None
        if is_same
        else f"{path} does not have the record in front of byte {end.position}, which {active.path} has applied"
    )


def check_end(opened: Sequence[GenerationRows], end: int) -> None:
    """Refuse rows that are ahead of the log, which ends in front of the place `end` (checkpoints V1)."""
    for rows in opened:
        if rows.ahead_at > end:
            last = cursor_of(rows.ahead_at - 1)
            raise StoreDamaged(
                refusal(f"{rows.file.path} has applied changes up to {last}, the log ends with {cursor_of(end - 1)}")
            )


def refusal(found: str) -> str:
    """The error message for files that do not belong together."""
    return (
        f"the files do not belong together: {found}. Is this a copy of a store that was in use? Use `journal backup` for one, or "
        "close the store and copy it then"
    )


def _impossible(files: Sequence[CommittedFile]) -> str | None:
    """What no crash leaves (Q3)."""
    *older, active = files
    at = active.applied_at()
    if cursor_of(at).order != active.order:
        later = cursor_of(at).order
        return f"{active.path} is of the last generation of the catalog, but has changes of generation {later}"
    parts = active.parts()
    for file in older:
        if file.order not in parts:
            return f"{active.path} does not know {file.path}"
        if file.applied_at() < parts[file.order][0]:
            known = cursor_of(parts[file.order][0])
            return f"{file.path} has applied the log up to {cursor_of(file.applied_at())}, {active.path} says up to {known}"
    orders = {file.order for file in older}
    for order, (_, is_empty) in parts.items():
        if order not in orders and not is_empty:
            return f"{active.path} says that generation {order} has rows, the catalog says that they are gone"
    return None
