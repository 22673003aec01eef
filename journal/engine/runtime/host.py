"""
What the parts of a pipeline need of it, as protocols: each part names the narrowest one that it can do with.

Parts hold their collaborators (the log, the group commit, the state, the time, the keeper), which are the same for as long as the
journal is open. Of the pipeline they ask for what changes, and for what concerns all parts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from journal.core.entry.effects import Effect
from journal.core.settings import Settings
from journal.errors import StorageError


class Host(Protocol):
    """A journal that a part belongs to."""

    name: str
    settings: Settings
    lock: threading.Lock

    @property
    def trouble(self) -> StorageError | None: ...
    def directory(self, order: int) -> Path: ...


class WritingHost(Host, Protocol):
    """One that a part writes records through."""

    def enter(self) -> int: ...
    def write_unawaited(self, effect: Effect, count: int, now: int) -> int: ...


class CommittingHost(Host, Protocol):
    """One whose rows a part has committed, on the keeper and without the lock."""

    def checkpoint(self) -> None: ...
    def commit_then(self, then: Callable[[], None] = ...) -> None: ...
