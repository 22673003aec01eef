"""
Files as a source: `type = "files"`, a directory of Parquet, CSV or JSON lines. Its namespace is the directory's name, or `namespace`.

The copy is read by Spark, in parallel, from the files that are there. Sync takes each new file as one record, read whole on the driver.
Rows are inserts. Their timestamp is the time at which the file was last written (of the copy: the newest of its files).

A position says which files have been read: 16 characters for each one that is still there, digests of its name and of its size and time.

F1  Names that begin with _ or . are passed over, also those of directories: they are not finished, or not data.
F2  A file is taken when its size and time are those of the look before, and it has not been written to for `settle_ms`.
F3  A file is written once. One that was changed after it had been read is an error, or with changed="again" a new file: its rows come
    again, and what it no longer has is not deleted.
F4  The schema is the one that is given, or that of the manifest of an export of ours, or what Spark finds: in Parquet the files', in JSON
    each file's own, in CSV texts.
F5  CSV has a first line with the names and doubled quotes, unless options say otherwise. An export of ours has that line or has not, as
    its writer was told: it is looked at, since to take it wrongly loses a row or adds one.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from journal.errors import NotFound, StorageError
from spark_export.errors import COLUMN_UNKNOWN, FILE_INVALID, OPTION_INVALID, invalid, problem, spark_at
from spark_export.exports.manifest import NAME as MANIFEST
from spark_export.exports.manifest import ExportManifest
from spark_export.pipelines.contract import COPY, NamespaceState, SourceCopy, SourcePart
from spark_export.sources.arrow_rows import insert_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "csv", "json")
CHANGED = ("error", "again")
SETTLE_MS = 2000
_DEFAULTS: dict[str, dict[str, str]] = {"csv": {"header": "true", "escape": '"'}}  # F5
_GLOB = re.compile(r"([\\{}\[\]*?])")
_NAME_BYTES, _STATE_BYTES = 7, 5
_MARK_BYTES = _NAME_BYTES + _STATE_BYTES


class FileState(NamedTuple):
    """What a look sees of a file."""

    size: int
    mtime_ns: int

    @property
    def mtime_ms(self) -> int:
        """When it was last written."""
        return self.mtime_ns // 1_000_000


class FilesSource:
    """
    A directory of files of one format.

    key         the columns that identify a row; none: messages have no key, and sinks that need one refuse them
    schema      the columns in Spark's DDL ("id BIGINT, name STRING")
    options     those of Spark's reader of the format
    changed     what a file is that was changed after it had been read: "error" or "again"
    settle_ms   for how long a file must not have been written to
    """

    modes: ClassVar[Sequence[str]] = ("copy", "sync", "copy+sync")

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: str = "parquet",  # noqa: A002 - the word of Spark and of the declaration
        key: Sequence[str] = (),
        namespace: str | None = None,
        schema: str | None = None,
        options: Mapping[str, Any] | None = None,
        changed: str = "error",
        settle_ms: int = SETTLE_MS,
        timeline: str | None = None,
    ) -> None:
        for word, value, known in (("format", format, FORMATS), ("changed", changed, CHANGED)):
            if value not in known:
                raise invalid(OPTION_INVALID, f"{word} is {value!r}: it must be one of {', '.join(known)}")
        self._path = Path(path)
        self._format = format
        self._key = (key,) if isinstance(key, str) else tuple(key)
        self._namespace = namespace or self._path.resolve().name
        self._schema = schema
        self._given = frozenset(word.lower() for word in options or ())
        self._options = _DEFAULTS.get(format, {}) | {name: str(value) for name, value in (options or {}).items()}
        self._changed = changed
        self._settle_ms = settle_ms
        self._manifest = self._found_manifest()
        ours = None if self._manifest is None else self._manifest.timeline
        self.timeline = timeline or ours or f"external({self._namespace})"
        self._spark: SparkSession | None = None
        self._mode = "copy"
        self._before: dict[str, FileState] = {}
        self._seen: dict[bytes, bytes] = {}

    def check(self, *, prepare: bool = False) -> Sequence[str]:
        """Reach the directory; sync needs nothing else."""
        self._look()
        return [self._namespace]

    def start(self, spark: SparkSession, states: Mapping[str, NamespaceState], mode: str) -> None:
        """Begin with the files that have been read."""
        self._spark, self._mode = spark, mode
        state = states.get(self._namespace)
        self._seen = {} if state is None or state.mode == COPY else _unpacked(state.position)
        self._before = self._look()

    def copies(self, namespaces: Sequence[str]) -> Iterator[SourceCopy]:
        """The files that are there."""
        if self._namespace not in namespaces:
            return
        now = self._look()
        ready = {name: state for name, state in now.items() if self._is_settled(name, state)}
        if self._mode == "copy" and len(ready) < len(now):
            busy = ", ".join(sorted(now.keys() - ready.keys())[:5])
            raise problem(
                StorageError,
                FILE_INVALID,
                f"files of {self._path} are still being written: {busy}. Copy when they are finished, or with mode copy+sync",
            )
        self._before = now
        self._seen = dict(_mark(name, state) for name, state in ready.items())
        position = _packed(self._seen)
        if ready:
            stamp = max(state.mtime_ms for state in ready.values())
            frame = self._frame(sorted(ready))
            yield SourceCopy(self._namespace, self._key, frame=frame, timestamp=stamp, position=position)
        else:
            yield SourceCopy(self._namespace, self._key, parts=iter(()), rows=0, position=position)

    def sync(self) -> Iterator[Sequence[SourcePart]]:
        """New files, the oldest first."""
        while True:
            now = self._look()
            names = {_mark(name, state)[0] for name, state in now.items()}
            self._seen = {name: state for name, state in self._seen.items() if name in names}
            fresh = [name for name, state in now.items() if self._is_new(name, state) and self._is_settled(name, state)]
            self._before = now
            for name in sorted(fresh, key=lambda each: (now[each].mtime_ns, each)):
                if parts := self._parts_of(name, now[name]):
                    yield parts
            if not fresh:
                yield []

    def advance(self, position: Any) -> None:
        """Files are their owner's: nothing is removed."""

    def close(self) -> None:
        """Nothing is open."""

    def _look(self) -> dict[str, FileState]:
        """The files that are there, by their names below the directory (F1)."""
        if not self._path.is_dir():
            raise problem(NotFound, FILE_INVALID, f"{self._path} is no directory: give the one that the files are in")
        found: dict[str, FileState] = {}
        for top, inner, names in os.walk(self._path):
            inner[:] = sorted(name for name in inner if name[0] not in "_.")
            for name in names:
                if name[0] in "_.":
                    continue
                path = os.path.join(top, name)
                try:
                    seen = os.stat(path)
                except FileNotFoundError:
                    continue  # it was removed meanwhile
                found[os.path.relpath(path, self._path)] = FileState(seen.st_size, seen.st_mtime_ns)
        return found

    def _is_settled(self, name: str, state: FileState) -> bool:
        return self._before.get(name) == state and time.time() * 1000 - state.mtime_ms >= self._settle_ms  # F2

    def _is_new(self, name: str, state: FileState) -> bool:
        place, mark = _mark(name, state)
        known = self._seen.get(place)
        if known is not None and known != mark and self._changed == "error":
            raise self._was_changed(name)
        return known != mark

    def _was_changed(self, name: str) -> StorageError:
        return problem(
            StorageError,
            FILE_INVALID,
            f"{name} in {self._path} was changed after it had been read: write changed rows to a file with a name of its own, "
            "or read such files whole once more with changed = 'again'",
        )

    def _parts_of(self, name: str, state: FileState) -> list[SourcePart]:
        with spark_at(f"{self._path / name}"):
            rows = self._frame([name]).toArrow()
        if self._look().get(name, state) != state:
            raise self._was_changed(name)  # what was read may be a part of the one and a part of the other
        self._seen.update([_mark(name, state)])
        position = _packed(self._seen)
        return [
            SourcePart(table, position) for table in insert_tables(self._namespace, rows, self._key, state.mtime_ms)
        ]

    def _frame(self, names: Sequence[str]) -> DataFrame:
        """The rows of files; their columns alone."""
        from pyspark.sql import functions as f

        assert self._spark is not None, "start comes first"
        top = self._path.resolve()
        reader = self._spark.read.format(self._format).options(**self._options).option("basePath", str(top))
        if self._format == "csv" and self._manifest is not None and "header" not in self._given:
            reader = reader.option("header", str(self._has_header(names[0], self._manifest)).lower())
        if (schema := self._struct()) is not None:
            reader = reader.schema(schema)
        with spark_at(f"{self._path}"):
            frame = reader.load([_GLOB.sub(r"\\\1", str(top / name)) for name in names])
        if missing := [name for name in self._key if name not in frame.columns]:
            raise invalid(
                COLUMN_UNKNOWN,
                f"{self._path} has no column {', '.join(missing)} for the key: the columns are {', '.join(frame.columns)}",
            )
        encoded = () if self._manifest is None or self._schema is not None else self._manifest.base64
        return frame.withColumns({name: f.unbase64(f.col(f"`{name}`")) for name in encoded}) if encoded else frame

    def _struct(self) -> Any:
        """The schema (F4); None: Spark finds it."""
        from pyspark.sql.types import StringType, StructField, StructType

        if self._schema is not None or self._manifest is None:
            return self._schema
        encoded = self._manifest.base64
        return StructType(
            [
                StructField(each.name, StringType()) if each.name in encoded else each
                for each in StructType.fromJson(self._manifest.columns)
            ]
        )

    def _has_header(self, name: str, manifest: ExportManifest) -> bool:
        """Whether the first line of a file of an export has the names of its columns (F5)."""
        separator = self._options.get("sep", self._options.get("delimiter", ","))
        names = [each["name"] for each in manifest.columns["fields"] if each["name"] not in manifest.partition_by]
        with open(self._path / name, "rb") as file:
            first = file.readline().rstrip(b"\r\n")
        return first.replace(b'"', b"") == separator.join(names).replace('"', "").encode()

    def _found_manifest(self) -> ExportManifest | None:
        place = self._path / MANIFEST
        return ExportManifest.from_json(place.read_text(encoding="utf-8"), str(place)) if place.is_file() else None


def _mark(name: str, state: FileState) -> tuple[bytes, bytes]:
    return _digest(name, _NAME_BYTES), _digest(f"{state.size} {state.mtime_ns}", _STATE_BYTES)


def _digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(os.fsencode(text), digest_size=size).digest()


def _packed(seen: Mapping[bytes, bytes]) -> str:
    return base64.b64encode(b"".join(name + state for name, state in sorted(seen.items()))).decode()


def _unpacked(position: Any) -> dict[bytes, bytes]:
    whole = base64.b64decode(position or "")
    marks = [whole[at : at + _MARK_BYTES] for at in range(0, len(whole), _MARK_BYTES)]
    return {mark[:_NAME_BYTES]: mark[_NAME_BYTES:] for mark in marks}
