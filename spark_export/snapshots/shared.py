"""
A snapshot that several loads share: `spark_export.snapshot(…)` takes it, option("snapshot", shot.name) reads it.

Two DataFrames of one journal, or one that is used for a long time, then show the same moment. Its cursor is known: a
follower of the changes continues there.

H1  It is a directory of ours (0700) with a description, `parts`, and the copied rows; or the description alone, when a daemon keeps
    the rows.
H2  A description is read only from a directory that no other user can write to, and only for the journal that it is of.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from journal.api.journal import Journal
from journal.api.store import Store
from journal.core.log.cursor import Cursor
from journal.core.schema.schema import Schema
from journal.errors import NotFound
from spark_export.errors import SNAPSHOT_GONE, problem, told
from spark_export.options.common import JournalPlace
from spark_export.snapshots.copy_cache import known
from spark_export.stores.open_store import opened_place, place_in

PARTS = "parts"
PART_ROWS = 500_000
"""A task of this size takes about a second; more of them than cores only when there are more rows."""
PARTS_MAX = 1000


class Counter:
    """A number of rows in a file, for progress displays; on a machine that does not have the directory it is not written."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._rows = 0

    def add(self, rows: int) -> None:
        """So many more."""
        self._rows += rows
        with contextlib.suppress(OSError):
            Path(self._path).write_text(str(self._rows))


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedSnapshot:
    """A snapshot that is kept until its directory is removed."""

    name: str
    """For option("snapshot", …): the path of its directory."""
    place: JournalPlace
    cursor: Cursor
    """It shows exactly the changes up to here."""
    taken: int
    """When: engine time, in ms."""
    size: int
    """How many entries it has."""
    schema: Schema | None
    timeline: str
    parts: tuple[Any, ...]

    def counter(self, number: int) -> Counter:
        """The file in which the reader of a part records its progress."""
        return Counter(os.path.join(self.name, f"rows-{number}"))

    def rows_read(self) -> int:
        """How many rows the tasks on this machine have read."""
        total = 0
        for path in Path(self.name).glob("rows-*"):
            with contextlib.suppress(OSError, ValueError):
                total += int(path.read_text())
        return total

    @classmethod
    def found(cls, name: str, place: JournalPlace) -> SharedSnapshot:
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
def snapshot(
    store: Store | str | os.PathLike[str],
    journal: str,
    *,
    partitions: int | None = None,
    token: str | None = None,
    tls_ca: str | None = None,
) -> Iterator[SharedSnapshot]:
    """
    Take a snapshot of a journal and keep it for the time of the block, for any number of loads.

    store        a path, a daemon's address, or a store that is open
    partitions   in how many parts it is read; None: by its size
    """
    place = place_in(store, journal, token=token, tls_ca=tls_ca)
    with told(), contextlib.ExitStack() as held:
        yield kept_for(held, store, place, partitions=partitions)


def kept_for(
    held: contextlib.ExitStack,
    store: Store | str | os.PathLike[str],
    place: JournalPlace,
    *,
    partitions: int | None = None,
    part_rows: int = PART_ROWS,
    top: str | None = None,
    before: Callable[[Journal], None] | None = None,
    then: Callable[[Journal, Cursor], None] | None = None,
) -> SharedSnapshot:
    """
    Take a snapshot, and keep it for as long as `held`. The store is closed again at once, unless a daemon keeps the rows.

    top              the directory of a session, where copies may be that it has made before; they are used, and stay there
    before, then     what is to be done with the open journal before it is taken, which may change it; and after, with its cursor
    """
    directory = tempfile.mkdtemp(prefix="journal-snapshot-", dir=top)  # 0700 (H1)
    held.callback(shutil.rmtree, directory, ignore_errors=True)
    with contextlib.ExitStack() as opened:
        pages = opened.enter_context(opened_place(store, place, is_written=before is not None))
        if before is not None:
            before(pages)
        shot = pages.snapshot(directory=directory, known=() if top is None else known(top, place))
        if pages.is_remote:
            opened.callback(shot.close)
        kept = SharedSnapshot(
            name=directory,
            place=place,
            cursor=shot.cursor,
            taken=shot.taken,
            size=shot.size,
            schema=shot.schema,
            timeline=pages.settings.timeline,
            parts=tuple(shot.parts(parts_number(partitions, shot.size, part_rows))),
        )
        with open(os.open(Path(directory) / PARTS, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            pickle.dump(kept, file)
        if then is not None:
            then(pages, shot.cursor)
        if pages.is_remote:
            held.push(opened.pop_all())  # the rows are there until it is told; ours go with the directory
    return kept


def parts_number(asked: int | None, size: int, part_rows: int = PART_ROWS) -> int:
    """Into how many parts a snapshot is read."""
    if asked is not None:
        return asked
    return max(os.cpu_count() or 2, min(PARTS_MAX, -(-size // part_rows)))


def _check_ours(name: str) -> None:
    found = os.lstat(name)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise problem(
            NotFound,
            SNAPSHOT_GONE,
            f"{name!r} is no snapshot of ours: it must be a directory that no other user writes to",
        )
