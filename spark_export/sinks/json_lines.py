"""
A sink into files of JSON lines, as spark_export.sinks.lossless_json writes them: one file for all namespaces, or one for each.

J1  Lines are appended in the order of their ids and are on the disk when `write` returns.
J2  `resume` cuts each file behind its last whole line with an id up to the position: each message is in the files once.
J3  A file that has another writer's lines is refused, and stays as it is.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

from journal.errors import Invalid
from spark_export.pipelines.contract import SinkBatch
from spark_export.pipelines.message import messages_of
from spark_export.sinks.directories import check_writable, make_directory, name_of, sync
from spark_export.sinks.lossless_json import line_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACE = "{namespace}"
_ID = re.compile(rb'\{"id":([0-9]+),')


class JsonLinesSink:
    """`path` is a file, or has {namespace} in the name of the file: then each namespace has its own."""

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()
        if PLACE in str(self._path.parent):
            raise Invalid(f"the path is {path!r}: {PLACE} may stand in the name of the file only, not in a directory's")

    def check(self) -> None:
        """See that the files can be written."""
        check_writable(self._path.parent)
        for path in self._files():
            if not os.access(path, os.W_OK):
                raise Invalid(f"{path} cannot be written by this user: give the right to it, or name another path")

    def start(self, spark: SparkSession, pipeline: str, name: str) -> None:
        """Make the directory."""
        make_directory(self._path.parent)

    def resume(self, position: int) -> int:
        """Cut what is above the position (J2)."""
        ends = [(path, _end(path, position)) for path in self._files()]  # all are read before one is cut (J3)
        for path, end in ends:
            if end != path.stat().st_size:
                os.truncate(path, end)
                sync(path)
        return position

    def write(self, batch: SinkBatch) -> None:
        """Append all lines (J1)."""
        opened: dict[str, IO[str]] = {}
        is_new = False
        with ExitStack() as stack:
            for message in messages_of(batch.tables()):
                namespace = message.namespace if PLACE in self._path.name else ""
                if namespace not in opened:
                    path = self._path.with_name(self._path.name.replace(PLACE, name_of(namespace)))
                    is_new |= not path.exists()
                    opened[namespace] = stack.enter_context(open(path, "a", encoding="utf-8", newline="\n"))
                opened[namespace].write(line_of(message) + "\n")
            for file in opened.values():
                file.flush()
                os.fsync(file.fileno())
        if is_new:
            sync(self._path.parent)

    def close(self) -> None:
        """Nothing is held."""

    def _files(self) -> Iterator[Path]:
        before, sign, behind = self._path.name.partition(PLACE)
        if not sign:
            return iter([self._path] if self._path.exists() else [])
        directory = self._path.parent
        there = sorted(directory.iterdir()) if directory.is_dir() else []
        return (
            path
            for path in there
            if path.is_file()
            and len(path.name) > len(before + behind)
            and path.name.startswith(before)
            and path.name.endswith(behind)
        )


def _end(path: Path, position: int) -> int:
    """Where a file ends when it is cut behind the position."""
    if not path.stat().st_size:
        return 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        end = text.rfind(b"\n") + 1  # what is behind it is torn
        while end:
            begin = text.rfind(b"\n", 0, end - 1) + 1
            found = _ID.match(text[begin : min(end, begin + 32)])
            if found is None:
                raise Invalid(
                    f"{path} has a line at byte {begin} that is no message: it is another's file; name another path"
                )
            if int(found[1]) <= position:
                break
            end = begin
        return end
