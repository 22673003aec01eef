"""
Where the parts of a load wait for its commit.

    a store's path       a directory beside the store (or `staging`), which the tasks must see; the store needs no owner meanwhile
    a daemon's address   the daemon keeps them, so tasks need nothing but a connection

S1  A part has a name that no other attempt has, so a task that is tried again, or twice at a time, disturbs no other task. The commit
    decides which attempts count, with the names that Spark gives to it.
S2  Nothing is left: a part goes with the task that fails, all of them with the commit or the abort, and what a killed driver left
    goes with the next load of the same store: the name of a directory names its owner (process_owner). Where it is not known whether the
    owner is gone, the directory goes after STALE_S.
S3  It is a value that tasks get; it holds no connection and no file.
S4  A task that goes on after the load was given up finds no directory, and makes none. Of a stream's batch it is not known that it was
    given up before a task has answered, so there the first task makes the directory, and a late one may leave it to S2.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from journal.api.journal import Journal
from journal.core.values import Loaded
from journal.errors import JournalError, StorageError
from journal.loads import PartWriter, SealedPart
from spark_export.errors import STAGING, STORAGE, STORE_UNREACHABLE, coded, problem
from spark_export.options.common import JournalPlace
from spark_export.options.load import WriteOptions
from spark_export.stores.open_store import connected, existing, told_all
from spark_export.stores.process_owner import HOLDER, is_gone, own

KEY_BYTES = 32
STALE_S = 86_400
"""A day: a load that takes longer is taken for abandoned."""
_NAME = re.compile(rf"\.load-[0-9a-f]{{16}}(?:\.({HOLDER}))?(?:\.gone)?")


class PartSink(Protocol):
    """What a part is written to."""

    def write(self, block: bytes) -> Any:
        """Add a block of rows."""

    def close(self) -> Any:
        """Make it whole."""


@dataclass(frozen=True, slots=True)
class LoadStaging:
    """The place of a load's parts (S3)."""

    place: JournalPlace
    directory: str | None
    load: str | None
    """The id of the load at the daemon."""
    is_made_by_tasks: bool = False
    key: bytes | None = None
    """What tasks seal their parts with (journal.loads.SealedPart); None: they do not."""

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[PartSink]:
        """A part to be written; it is whole when the block has ended, and gone when it is left by an error (S2)."""
        try:
            with self._part(name) as part:
                yield part
        except StorageError as e:
            raise coded(e, STORAGE) from e
        except JournalError as e:
            raise coded(e) from e

    @contextlib.contextmanager
    def _part(self, name: str) -> Iterator[PartSink]:
        if self.directory is not None:
            try:
                with self._file(name) as writer:
                    yield writer
            except BaseException:
                if self.is_made_by_tasks:
                    self._rmdir()
                raise
            return
        assert self.load is not None
        with connected(self.place.path, self.place) as store:
            part = store.journal(self.place.journal).load_part(self.load, name)
            yield part
            part.close()

    def _file(self, name: str) -> PartWriter:
        assert self.directory is not None
        if self.is_made_by_tasks and os.path.isdir(os.path.dirname(self.directory)):
            _make(self.directory)
        if not os.path.isdir(self.directory):
            raise problem(
                StorageError,
                STAGING,
                f"{self.directory} is not to be seen here, where a task runs. Either the load was given up; or this machine does not share "
                "that disk: then give the address of the store's daemon in place of its path, or a directory that all tasks share in the "
                "option 'staging'",
            )
        return PartWriter(os.path.join(self.directory, name), self.key)

    def _rmdir(self) -> None:
        try:
            os.rmdir(self.directory or "")
        except OSError:
            pass  # other tasks have parts in it

    def commit(
        self, pages: Journal, names: Sequence[str], options: WriteOptions, once: tuple[str, int] | None
    ) -> Loaded:
        """Load the parts of these names, all of them or none."""
        how: dict[str, Any] = {
            "on_conflict": options.on_conflict, "on_reject": options.on_reject, "once": once, "durability": options.durability,
        }  # fmt: skip
        if self.directory is None:
            assert self.load is not None
            return pages.load_commit(self.load, list(names), **how)
        paths = [os.path.join(self.directory, name) for name in names]
        key = self.key
        return pages.load(paths if key is None else [SealedPart(path, key) for path in paths], **how)

    def remove(self) -> None:
        """Give up whatever is there (S2)."""
        if self.directory is not None:
            gone = f"{self.directory}.gone"
            try:
                os.rename(self.directory, gone)  # at once, so that no task adds a part while they are removed (S4)
            except FileNotFoundError:
                return
            shutil.rmtree(gone, ignore_errors=True)
            return
        assert self.load is not None
        try:
            with connected(self.place.path, self.place) as store:
                store.journal(self.place.journal).load_abort(self.load)
        except JournalError:
            pass  # the daemon forgets it by itself, after an hour


def begin(
    options: WriteOptions, *, is_made_by_tasks: bool = False, is_sealed: bool = False, holder: str | None = None
) -> LoadStaging:
    """
    A place for the parts of a new load (S4); a daemon checks all rows, so what it keeps is not sealed.

    holder   the process whose end makes the load stale (S2); by default this process
    """
    place = told_all(options.place)
    if place.is_address:
        try:
            with connected(place.path, place) as store:
                return LoadStaging(place, None, existing(store, place).load_begin().id)
        except JournalError as e:
            raise coded(e, STORE_UNREACHABLE) from e
    directory = beside(place.path, options.staging, holder or own())
    if not is_made_by_tasks:
        _make(directory)
    return LoadStaging(place, directory, None, is_made_by_tasks, secrets.token_bytes(KEY_BYTES) if is_sealed else None)


def _make(directory: str) -> None:
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError as e:
        raise problem(StorageError, STAGING, f"cannot make {directory}: {e.strerror}") from e


def beside(path: str, chosen: str | None, holder: str) -> str:
    """The name of a directory for the parts of a holder: beside the store, on the same disk, or in one that was chosen."""
    store = os.path.abspath(path)
    parent = os.path.abspath(chosen) if chosen is not None else os.path.dirname(store)
    stem = f".{os.path.basename(store)}"
    _remove_stale(parent, stem)
    return os.path.join(parent, f"{stem}.load-{secrets.token_hex(8)}.{holder}")


def _remove_stale(parent: str, stem: str) -> None:
    try:
        names = os.listdir(parent)
    except OSError:
        return
    limit = time.time() - STALE_S
    for name in names:
        found = _NAME.fullmatch(name[len(stem) :]) if name.startswith(stem) else None
        if found is not None:
            path = os.path.join(parent, name)
            if is_gone(found[1] or "") or _touched(path) < limit:
                shutil.rmtree(path, ignore_errors=True)


def _touched(path: str) -> float:
    """When something last happened in a directory."""
    try:
        return max([os.stat(path).st_mtime, *(entry.stat().st_mtime for entry in os.scandir(path))])
    except OSError:
        return time.time()
