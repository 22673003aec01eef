"""
What a workload told the world: one line of JSON for each call that was answered, in a file outside of the store.

A mark is written after the call returned and before the next one begins, so whoever finds it may rely on that call.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mark:
    """One answered call. Number 0 is the open; the last one of a run that ended well is the close."""

    number: int
    verb: str
    level: str
    answer: str = ""
    cursor: str | None = None
    durable: str | None = None
    """What the journal itself calls durable by then."""
    dump: list[str] = field(default_factory=list)


class MarkFile:
    """Where a workload writes its marks."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, mark: Mark) -> None:
        # One write for one line: a kill leaves whole lines, and the order of threads is the order of their answers.
        os.write(self._fd, json.dumps(asdict(mark), ensure_ascii=True).encode() + b"\n")


def parse_marks(lines: Iterable[str]) -> list[Mark]:
    """The marks of these lines."""
    return [Mark(**json.loads(line)) for line in lines]


def read_marks(path: Path) -> list[Mark]:
    """The marks of a file, in order; a killed writer may not have made one yet."""
    return parse_marks(path.read_text().splitlines()) if path.exists() else []


def kept_at_least(marks: Iterable[Mark], levels: frozenset[str]) -> int:
    """
    The last call that must have survived: one promised at one of these levels, or one that the journal called durable.

    Survival of a call means survival of all before it: there is one log.
    """
    last = 0
    cursors: list[tuple[str, int]] = []
    for mark in marks:
        if mark.level in levels:
            last = max(last, mark.number)
        if mark.cursor is not None:
            cursors.append((mark.cursor, mark.number))
        if mark.durable is not None:
            last = max([last, *(number for cursor, number in cursors if cursor <= mark.durable)])
    return last
