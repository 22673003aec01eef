"""What the verbs that read need of a journal's pipeline; the methods are described at `Pipeline`."""

from __future__ import annotations

from typing import Any, Protocol

from journal.core.counters import Tally
from journal.core.log.cursor import Cursor
from journal.engine.generations.view import GenerationsView
from journal.engine.log.writer import LogWriter
from journal.engine.runtime.background import Keeper
from journal.engine.work.path import StatePath


class ReadPath(StatePath, Protocol):
    """For what is read of entries."""

    @property
    def blank(self) -> dict[str, Any] | None: ...


class FiguresPath(ReadPath, Protocol):
    """For statistics."""

    tally: Tally

    def figures(self) -> dict[str, Any]: ...


class LogPath(ReadPath, Protocol):
    """For what is read of the log and its generations."""

    level: int
    keeper: Keeper
    log: LogWriter

    @property
    def order(self) -> int: ...
    @property
    def generations(self) -> GenerationsView: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def last_cursor(self) -> Cursor: ...
    def level_of(self, durability: str | None, default: int) -> int: ...
