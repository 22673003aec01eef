"""
`journal.read_log`: the records in a directory of log files, of a store or of another program that writes the same format.

Nothing is written, and the caller need not own a store (external R1, R2, R3, R4).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from journal.core.entry.effects import Skip
from journal.core.log.events import MODES, OPS, Event, events_of
from journal.engine.log.external import LogFiles
from journal.errors import Invalid, NotFound


class LogRecord(NamedTuple):
    """A record, as it stands in a log file."""

    offset: int
    timestamp: int
    """As it was written: in ms, by us."""
    mode: str
    op: str
    namespace: bytes
    data: bytes
    """Without the checksum; of ours: docs/DATA.md has its parts."""
    events: tuple[Event, ...]
    """The changes in it, if it is one of ours; their cursors are of the first generation."""


def read_log(directory: str | os.PathLike[str], *, start: int = 0, stop: int | None = None) -> Iterator[LogRecord]:
    """
    The records in a directory of segment files (<first offset, 20 digits>.log), in order: those with changes from offset
    `start` on and before `stop`. With or without checksums; other files there are left alone.

    LogDamaged names the file and the byte of what cannot be read, after all records before it.
    """
    for name, value in (("start", start), ("stop", 0 if stop is None else stop)):
        if type(value) is not int or value < 0:
            raise Invalid(f"{name} is {value!r}: it must be an offset, an int of at least 0")
    path = Path(directory)
    if not path.is_dir():
        raise NotFound(f"{path} is not a directory of log files")
    return _read(LogFiles(path), start, stop)


def _read(files: LogFiles, start: int, stop: int | None) -> Iterator[LogRecord]:
    for found in files.read(start, stop):
        record, payload = found.record, found.payload
        events: tuple[Event, ...] = ()
        if payload is not None and type(payload.effect) is not Skip:
            events = tuple(events_of(record, payload, 1))
        mode, op = record.attribute & 3, record.op
        yield LogRecord(
            record.offset,
            record.timestamp,
            MODES[mode] if mode < len(MODES) else f"unknown {mode}",
            OPS[op] if op < len(OPS) else f"unknown {op}",
            record.namespace,
            record.data,
            events,
        )
