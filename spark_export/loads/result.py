"""The result of a load: how many rows, and which were left out. Needs neither Arrow nor Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from journal.core.log.cursor import Cursor


class RejectedRow(NamedTuple):
    """A row that was not loaded: the partition that it was in, its place there, its key where it is known, and the reason."""

    partition: int
    row: int
    key: Any
    reason: str


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load did, in rows."""

    inserted: int
    merged: int
    replaced: int
    queued: int
    ignored: int
    skipped: int
    cursor: Cursor
    is_repeated: bool
    """A load of the same name had this number, or a higher one, before: nothing was changed now."""
    rejected: list[RejectedRow]
