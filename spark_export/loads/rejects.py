"""
The list of the rows that a load has left out: JSON lines with partition, row, key and reason, in a file that the option `rejects` names.

X1  It is whole or not there: written beside its place, then renamed. An empty one says that there were no such rows.
X2  Whether it can be written is found out before anything is loaded: its file is there, and open, when the journal is changed.
X3  A load that was made before leaves the list of the first time alone: now nothing was refused, since nothing was loaded.
X4  Each micro-batch of a stream has a list of its own, and one without such rows has none.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence

from journal.errors import StorageError
from spark_export.columns.json_codec import json_of
from spark_export.errors import OPTION_INVALID, STORAGE, invalid, problem
from spark_export.loads.result import RejectedRow


class RejectList:
    """The list of one load, open; a context manager that leaves nothing behind but a list that was kept."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._written = f"{path}.{secrets.token_hex(4)}"
        if os.path.isdir(path):
            raise invalid(OPTION_INVALID, f"rejects is {path!r}, a directory: give the path of a file")
        try:
            # A key may be half of a surrogate pair: it is written as JSON escapes it.
            self._file = open(self._written, "x", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 - `__exit__` closes it
        except OSError as e:
            raise invalid(
                OPTION_INVALID, f"rejects is {path!r}, which cannot be written: {e.strerror}. Nothing was changed"
            ) from e

    def __enter__(self) -> RejectList:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._written)

    def keep(self, left_out: Sequence[RejectedRow]) -> None:
        """Write it, and give it its name (X1); the load has been made by now."""
        try:
            for one in left_out:
                self._file.write(json_of(one._asdict()) + "\n")
            self._file.close()
            os.replace(self._written, self._path)
        except OSError as e:
            raise problem(
                StorageError,
                STORAGE,
                f"the load was made, but {len(left_out)} rows that were left out could not be listed in {self._path}: {e.strerror}",
            ) from e


@contextlib.contextmanager
def listing(path: str | None) -> Iterator[RejectList | None]:
    """The list at this path, if there shall be one (X2)."""
    if path is None:
        yield None
        return
    with RejectList(path) as found:
        yield found


def check_path(path: str | None) -> None:
    """Refuse a path where no list can be (X2)."""
    with listing(path):
        pass


def of_batch(path: str, query: str, batch: int) -> str:
    """The path of the list of a stream's batch: `rejects.jsonl` is `rejects-<query>-<batch>.jsonl` (X4)."""
    stem, suffix = os.path.splitext(path)
    return f"{stem}-{query}-{batch:06d}{suffix}"
