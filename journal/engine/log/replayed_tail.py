"""The end of a log that recovery has replayed: made durable before anything is written behind it."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from journal.engine.files.posix import open_file, sync_directory, sync_file, write_all, write_zeros
from journal.engine.log.reader import RecordPlace, segment_path, survivors

log = logging.getLogger("journal.log")

PIECE = 1 << 20


def harden(
    directory: Path, namespace: bytes, segments: list[int], end: RecordPlace, replayed_from: RecordPlace
) -> None:
    """
    Write the replayed records once more and sync them: after a failed sync the cache may call pages clean that
    never reached the disk. All bytes behind the end go: of a torn record any sector may be left, and a new record's
    first bytes could make it whole again.
    """
    for first in segments:
        if first < replayed_from.segment:
            continue
        begin = replayed_from.position if first == replayed_from.segment else 0
        path = segment_path(directory, first)
        fd = open_file(path)
        try:
            size = os.fstat(fd).st_size
            stop = end.position if first == end.segment else size
            while begin < stop:
                piece = os.pread(fd, min(PIECE, stop - begin), begin)
                write_all(fd, piece, begin)
                begin += len(piece)
            if first == end.segment:
                _clear_behind(fd, namespace, end, size)
            sync_file(fd, path)
        finally:
            os.close(fd)
    sync_directory(directory)


def _clear_behind(fd: int, namespace: bytes, end: RecordPlace, size: int) -> None:
    at = end.position
    while at < size:
        piece = os.pread(fd, min(PIECE, size - at), at)
        if piece.count(0) != len(piece):
            if any(survivors(fd, namespace, end)):
                log.warning("log_tail_cut segment=%d position=%d offset=%d", end.segment, end.position, end.offset)
            write_zeros(fd, at, size)
            return
        at += len(piece)
