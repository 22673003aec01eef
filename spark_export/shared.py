"""
A snapshot that several loads share: `spark_export.snapshot(…)` takes it, option("snapshot", shot.name) reads it.

Two DataFrames of one journal, or one that is used for a long time, then show the same moment; and it is known at which cursor that is:
there following the changes goes on.

H1  It is a directory of ours (0700) with a description, `parts`, and the copied rows; or the description alone, when a daemon keeps
    the rows.
H2  A description is read only from a directory that nobody else can write to, and only for the journal that it is of.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from journal.core.cursor import Cursor
from journal.core.schema import Schema
from journal.errors import NotFound
from spark_export.options import Place
from spark_export.problems import SNAPSHOT_GONE, problem
from spark_export.stores import AnyJournal

PARTS = "parts"


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedSnapshot:
    """A snapshot that is kept until its directory is removed."""

    name: str
    """For option("snapshot", …): the path of its directory."""
    place: Place
    cursor: Cursor
    """It shows exactly the changes up to here."""
    taken: int
    """When: engine time, in ms."""
    size: int
    """How many entries it has."""
    schema: Schema | None
    timeline: str
    parts: tuple[Any, ...]

    @classmethod
    def found(cls, name: str, place: Place) -> SharedSnapshot:
        """One that was taken before, by its name (H2)."""
        try:
            _check_ours(name)
            with open(os.path.join(name, PARTS), "rb") as file:
                kept = pickle.load(file)  # ours alone (H2)
        except OSError as e:
            raise problem(
                NotFound,
                SNAPSHOT_GONE,
                f"there is no snapshot {name!r} ({e.strerror}): it was closed, take another one",
            ) from e
        if not isinstance(kept, SharedSnapshot) or (kept.place.path, kept.place.journal) != (place.path, place.journal):
            raise problem(
                NotFound,
                SNAPSHOT_GONE,
                f"{name!r} is no snapshot of the journal {place.journal!r} in {place.path}: give that journal, or take another one",
            )
        return kept


@contextlib.contextmanager
def shared(
    pages: AnyJournal, place: Place, count: int | None = None, *, top: str | None = None
) -> Iterator[SharedSnapshot]:
    """Take a snapshot of an open journal and keep it for the time of the block."""
    from spark_export.reader import parts_number

    directory = tempfile.mkdtemp(prefix="journal-snapshot-", dir=top)  # 0700 (H1)
    try:
        with pages.snapshot(directory=directory) as shot:
            kept = SharedSnapshot(
                name=directory,
                place=place,
                cursor=shot.cursor,
                taken=shot.taken,
                size=shot.size,
                schema=shot.schema,
                timeline=pages.settings.timeline,
                parts=tuple(shot.parts(parts_number(count, shot.size))),
            )
            with open(os.open(Path(directory) / PARTS, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
                pickle.dump(kept, file)
            yield kept
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _check_ours(name: str) -> None:
    found = os.lstat(name)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise problem(
            NotFound,
            SNAPSHOT_GONE,
            f"{name!r} is no snapshot of ours: it must be a directory that nobody else writes to",
        )
