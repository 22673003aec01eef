"""What loads need of the write path of a journal (journal.engine.pipeline)."""

from __future__ import annotations

from typing import Protocol

from journal.engine.checkpoints import Checkpoints
from journal.engine.work.path import WorkPath


class LoadPath(WorkPath, Protocol):
    """See the module; the methods are described at `Pipeline`."""

    @property
    def changes(self) -> int: ...
    @property
    def checkpoints(self) -> Checkpoints: ...
    def now(self) -> int: ...
    def check_open(self) -> None: ...
    def check_room(self, weight: int = ...) -> None: ...
    def add_changes(self, count: int) -> None: ...
