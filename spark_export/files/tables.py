"""
Tables in files, for `journal load`: Parquet and CSV, read by Arrow in batches; a directory is all of its files.

T1  A column has the type that its use asks for, where its use is known from its name: a key of digits stays a text.
T2  Directories of partitions (`priority=100/…`), as Spark writes them, give the columns that their names have; those below the directory
    that was named, not the ones above it.
T3  A file that cannot be read is named, with the reason.
T4  CSV has no bytes: where they are expected, it has base64, as an export writes them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import csv, parquet

from journal.core.schema.schema import Schema
from journal.errors import Invalid, NotFound
from spark_export.columns.field_columns import ARROW
from spark_export.columns.layout import AFTER, BEFORE, DATES, FIELD_TYPES, layout
from spark_export.errors import FILE_INVALID, invalid, problem
from spark_export.files import int96
from spark_export.files.csv import CsvOptions, is_about_utf8, not_utf8, open_csv

FORMATS = ("parquet", "csv", "jsonl")
SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
}  # fmt: skip
BATCH_ROWS = 16_384

_ARROW = {name: kind for name, kind in ARROW.items() if name != "timestamp"}


class DataFile(NamedTuple):
    """A file that is meant, its format, and the directory that was named for it."""

    path: Path
    kind: str
    top: Path

    @property
    def partitions(self) -> dict[str, pa.Scalar]:
        """The columns that the names of directories below that one give (T2)."""
        found: dict[str, pa.Scalar] = {}
        for part in self.path.relative_to(self.top).parts[:-1]:
            name, sign, text = part.partition("=")
            if sign and name:
                try:
                    found[unquote(name)] = _scalar(unquote(text), AFTER.get(unquote(name)))
                except (ValueError, OverflowError) as e:
                    raise invalid(
                        FILE_INVALID, f"the directory {part!r} above {self.path} has no value of {name}: {e}"
                    ) from e
        return found


def files_of(paths: list[str], chosen: str | None) -> list[DataFile]:
    """The files that are meant; those of a directory in the order of their names."""
    found: list[DataFile] = []
    for text in paths:
        path = Path(text)
        if path.is_dir():
            inner = [(each, _format(each, chosen)) for each in sorted(path.rglob("*")) if _is_data(each, path)]
            if not inner:
                raise problem(NotFound, FILE_INVALID, f"{path} is a directory without files to load")
            found += [DataFile(each, _needed(each, kind), path) for each, kind in inner]
        elif path.is_file():
            found.append(DataFile(path, _needed(path, _format(path, chosen)), path.parent))
        else:
            raise problem(NotFound, FILE_INVALID, f"there is no file {path}")
    return found


def _is_data(path: Path, top: Path) -> bool:
    """Names that begin with _ or . are Spark's own, or ours (a manifest)."""
    return path.is_file() and not any(part.startswith(("_", ".")) for part in path.relative_to(top).parts)


def _format(path: Path, chosen: str | None) -> str | None:
    if chosen is not None:
        return chosen
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return next((SUFFIXES[suffix] for suffix in reversed(suffixes) if suffix in SUFFIXES), None)


def _needed(path: Path, kind: str | None) -> str:
    if kind is None:
        raise invalid(
            FILE_INVALID, f"the name of {path} does not say what it is: give --format, one of {', '.join(FORMATS)}"
        )
    return kind


class FileTable:
    """One file: its columns, and its rows in batches."""

    def __init__(
        self, found: DataFile, named: Mapping[str, str], schema: Schema | None, csv_options: CsvOptions
    ) -> None:
        path, kind, _ = found
        self.path, self._kind = path, kind
        self._csv_options = csv_options
        self._partitions = found.partitions
        self._base64: set[str] = set()
        self._instants: frozenset[str] = frozenset()
        try:
            self._reader: parquet.ParquetFile | csv.CSVStreamingReader
            if kind == "parquet":
                self._reader = int96.opened(path)
                self._instants = int96.instants(self._reader)
                own = int96.typed(self._reader.schema_arrow, self._instants)
            else:
                known = _types(named, schema, csv_options.data_format)
                self._base64 = {name for name, type_ in known.items() if pa.types.is_binary(type_)}
                self._reader = open_csv(path, known, _dates(named, schema), csv_options)
                own = _with_bytes(self._reader.schema, self._base64)
        except (pa.ArrowException, OSError) as e:
            raise self._unreadable(e, f" as {kind}") from e
        for name, value in self._partitions.items():
            own = own.append(pa.field(name, value.type))
        self.schema: pa.Schema = own

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows."""
        try:
            source = (
                self._reader.iter_batches(batch_size=BATCH_ROWS)
                if isinstance(self._reader, parquet.ParquetFile)
                else self._reader
            )
            for batch in source:
                batch = int96.converted(batch, self._instants)
                if self._base64:
                    batch = self._decoded(batch)
                for name, value in self._partitions.items():
                    batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
                yield batch
        except (pa.ArrowException, OSError) as e:
            raise self._unreadable(e) from e

    def _unreadable(self, error: Exception, kind: str = "") -> Invalid:
        if self._kind == "csv" and is_about_utf8(error):
            return not_utf8(self.path, self._csv_options)
        return invalid(FILE_INVALID, f"cannot read {self.path}{kind}: {error}")

    def _decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same with bytes in place of their base64 (T4)."""
        arrays = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in self._base64:
                try:
                    texts = column.to_pylist()
                    raw = [None if text is None else base64.b64decode(text, validate=True) for text in texts]
                except ValueError as e:
                    raise invalid(FILE_INVALID, f"the column {name!r} of {self.path} is no base64: {e}") from e
                column = pa.array(raw, pa.binary())
            arrays.append(column)
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _types(named: Mapping[str, str], schema: Schema | None, data_format: str) -> dict[str, pa.DataType]:
    """The types of columns whose use is known (T1); dates are found out: milliseconds, or moments as text."""
    data = "binary" if data_format == "msgpack" else "string"
    kinds = {name: kind for name, kind in {**BEFORE, **AFTER, "data": data}.items() if kind != "timestamp"}
    known = {named.get(role, role): _ARROW[kind] for role, kind in kinds.items()}
    if schema is not None:
        columns = (one for one in layout(schema, "fields") if one.field_type is not None)
        known |= {one.name: _ARROW[FIELD_TYPES[one.field_type or ""]] for one in columns if one.kind != "timestamp"}
    return known


def _dates(named: Mapping[str, str], schema: Schema | None) -> frozenset[str]:
    """The columns whose types are found out."""
    own = {named.get(role, role) for role in DATES}
    return frozenset(own if schema is None else own | {one.name for one in layout(schema, "fields") if one.is_date})


def _with_bytes(table: pa.Schema, names: set[str]) -> pa.Schema:
    return pa.schema([pa.field(each.name, pa.binary()) if each.name in names else each for each in table])


def _scalar(text: str, kind: str | None) -> pa.Scalar:
    if text == "__HIVE_DEFAULT_PARTITION__":
        return pa.scalar(None, _ARROW.get(kind or "string", pa.string()))
    if kind in _ARROW and kind != "string":
        return pa.scalar(int(text), _ARROW[kind])
    return pa.scalar(text)
