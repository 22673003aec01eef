"""The verbs about snapshots, as calls. What they do says journal.Snapshot; see journal.net.client.calls.call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from journal.core.log.cursor import Cursor
from journal.core.quoting import shown
from journal.core.schema.schema import Schema
from journal.core.snapshot_blocks import Block, KeyRange, checked_ranges
from journal.errors import FrameError, Invalid
from journal.net.client.calls.call import Call, call, nothing
from journal.net.wire.values import block_from, cursor_from


class Taken(NamedTuple):
    """A snapshot that a daemon keeps."""

    number: str
    """By which it is asked for."""
    cursor: Cursor
    taken: int
    size: int
    schema: Schema | None


def snapshot(journal: str) -> Call[Taken]:
    """Have one taken."""
    taken = call("SNAPSHOT_OPEN", journal, _taken)
    return taken._replace(undo=lambda value: [close(journal, _taken(value).number)])


def _taken(value: Any) -> Taken:
    match value:
        case {
            "snapshot": str(number),
            "cursor": cursor,
            "taken": int(taken),
            "size": int(size),
            "schema": None | dict() as schema,
        }:
            union = None if schema is None else Schema.from_dict(schema)
            return Taken(number, cursor_from(cursor), taken, size, union)
    raise FrameError(f"{shown(value)} is no answer to SNAPSHOT_OPEN: it has snapshot, cursor, taken, size and schema")


def split(
    journal: str, number: str, count: int, ranges: Sequence[KeyRange]
) -> Call[tuple[list[KeyRange], list[bytes]]]:
    """The ranges that have entries, and the keys between parts of about the same size."""
    return call("SNAPSHOT_SPLIT", journal, _split, snapshot=number, parts=count, ranges=_wire(ranges))


def _split(value: Any) -> tuple[list[KeyRange], list[bytes]]:
    match value:
        case {"ranges": ranges, "at": list(at)} if {bytes}.issuperset(map(type, at)) and at == sorted(set(at)):
            try:
                return checked_ranges(ranges), at
            except Invalid as e:
                raise FrameError(f"SNAPSHOT_SPLIT was answered with ranges that are none: {e}") from e
    raise FrameError(f"{shown(value)} is no answer to SNAPSHOT_SPLIT: it has ranges and at")


def read(journal: str, number: str, ranges: Sequence[KeyRange]) -> Call[Block]:
    """The first entries of the ranges; their checksums have not been looked at."""
    return call("SNAPSHOT_READ", journal, block_from, snapshot=number, ranges=_wire(ranges))


def close(journal: str, number: str) -> Call[None]:
    """Have it removed."""
    return call("SNAPSHOT_CLOSE", journal, nothing, snapshot=number)


def _wire(ranges: Sequence[KeyRange]) -> list[list[bytes]]:
    return [list(each) for each in ranges]
