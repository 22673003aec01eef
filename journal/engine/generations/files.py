"""The files of a generation that is about to begin."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from journal.engine.files.disposal import reuse_spare
from journal.engine.files.lmdb import create
from journal.engine.files.posix import make_directory, remove_tree
from journal.engine.log.writer import LogWriter
from journal.engine.state.file import DATABASES

log = logging.getLogger("journal.generations")

NEXT = "next"


def make_files(directory: Path, name: str) -> None:
    """The files of a generation in which nothing has happened, durable."""
    make_directory(directory)
    make_directory(directory / "log")
    create(directory / "rows.mdb", DATABASES)
    LogWriter(directory / "log", name.encode(), 0).create()


def prepare(top: Path, name: str, on_empty: str) -> Path:
    """The files of the coming generation, durable, under a name that no reader opens."""
    fresh = top / NEXT
    if os.path.lexists(fresh):
        remove_tree(fresh)
    make_files(fresh, name)
    reuse_spare(top, fresh / "rows.mdb", on_empty)
    return fresh


def take_back(directory: Path) -> None:
    """There was no room for a generation."""
    try:
        if directory.exists():
            remove_tree(directory)
    except OSError as e:
        log.warning(
            "generation_not_removed path=%s error=%s", directory, e
        )  # the next rotation does it, or the next open
