"""
What clients asked and were answered, in files: a line when a call begins, a line when it ends.

    ["invoke", 123, 7, "put", [["producer-0.7", 100]]]      time in ns, number, verb, what was asked
    ["ok", 456, 7, [["inserted", 1, 1, 12]]]                 what was answered, for each item
    ["fail", 456, 7, "StoreFull: …"]                         it was refused: nothing was changed
    ["unknown", 456, 7, "TimedOut: …"]                       nobody knows

H1  A line is written before the call is made, and before its answer is used: whoever is killed in between leaves a call that never
    ended, and that is an unknown one.
H2  Times are of the machine's steady clock, the same for all processes.
H3  Only what the errors promise is called a failure: a refusal changes nothing, and a full store neither. All else is unknown.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns
from typing import Any, TypeVar

from journal.errors import Invalid, JournalError, Refused, StoreFull

R = TypeVar("R")
REFUSALS = (Refused, Invalid, StoreFull)
"""After these nothing was changed (H3)."""
NEVER = 1 << 63
"""When a call ended that never did."""


@dataclass(slots=True)
class Op:
    """One call of a client."""

    client: str
    number: int
    verb: str
    begun: int
    asked: list[Any]
    ended: int = NEVER
    outcome: str = "unknown"
    answer: list[Any] = field(default_factory=list)
    error: str = ""

    @property
    def until(self) -> int:
        """By when it has happened, if it has: one whose outcome is unknown may still be under way."""
        return NEVER if self.outcome == "unknown" else self.ended


def outcome_of(error: BaseException) -> str:
    """What an error says about the call (H3)."""
    return "fail" if isinstance(error, REFUSALS) else "unknown"


def described(error: BaseException) -> str:
    """An error in a history."""
    return f"{type(error).__name__}: {error}"


class History:
    """The file of one client."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._number = 0
        self.outcome = ""
        """Of the last call."""

    def _tell(self, *line: Any) -> None:
        os.write(self._fd, json.dumps(line).encode() + b"\n")

    def call(self, verb: str, asked: list[Any], make: Callable[[], R], told: Callable[[R], list[Any]]) -> R | None:
        """Make a call and note it; None when it raised one of ours."""
        self._number += 1
        number = self._number
        self._tell("invoke", monotonic_ns(), number, verb, asked)
        try:
            result = make()
        except JournalError as e:
            self.outcome = outcome_of(e)
            self._tell(self.outcome, monotonic_ns(), number, described(e))
            return None
        self.outcome = "ok"
        self._tell("ok", monotonic_ns(), number, told(result))
        return result

    def note(self, event: str, **more: Any) -> None:
        """Something that is no call: what the nemesis did, or how a client ended."""
        self._tell("note", monotonic_ns(), 0, event, more)

    def close(self) -> None:
        """No more."""
        os.close(self._fd)


@dataclass(slots=True)
class Note:
    """Something that happened beside the calls."""

    at: int
    event: str
    more: dict[str, Any]


def read_history(path: Path) -> tuple[list[Op], list[Note]]:
    """The calls of one file, in their order, and its notes. A line that was cut by a kill is none."""
    ops: dict[int, Op] = {}
    notes: list[Note] = []
    for raw in path.read_bytes().split(b"\n"):
        try:
            kind, at, number, *rest = json.loads(raw)
        except ValueError:
            continue
        if kind == "invoke":
            ops[number] = Op(path.stem, number, rest[0], at, rest[1])
        elif kind == "note":
            notes.append(Note(at, rest[0], rest[1]))
        else:
            op = ops[number]
            op.ended, op.outcome = at, kind
            if kind == "ok":
                op.answer = rest[0]
            else:
                op.error = rest[0]
    return list(ops.values()), notes


def read_histories(paths: Iterable[Path]) -> tuple[list[Op], list[Note]]:
    """Those of all clients, in the order of time."""
    ops: list[Op] = []
    notes: list[Note] = []
    for path in paths:
        some, others = read_history(path)
        ops += some
        notes += others
    return sorted(ops, key=lambda op: op.begun), sorted(notes, key=lambda note: note.at)


def errors_of(ops: Iterable[Op]) -> Iterator[str]:
    """The classes of the errors that calls ended with."""
    return (op.error.partition(":")[0] for op in ops if op.error)
