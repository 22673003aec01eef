"""
Tables in files, for `journal load`: Parquet and CSV, read by Arrow in batches; a directory is all of its files.

T1  A column has the type that its use asks for, where its use is known from its name: a key of digits stays a text.
T2  Directories of partitions (`priority=100/…`), as Spark writes them, give the columns that their names have.
T3  A file that cannot be read is named, with the reason.
T4  CSV has no bytes: where they are expected, it has base64, as an export writes them.
"""

from __future__ import annotations

import base64
import contextlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import csv, parquet

from journal.core.schema import Schema
from journal.errors import Invalid, NotFound
from spark_export import int96
from spark_export.layout import AFTER, BEFORE, FIELD_TYPES, layout
from spark_export.problems import FILE_INVALID, problem

FORMATS = ("parquet", "csv", "jsonl")
SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
}  # fmt: skip
BATCH_ROWS = 16_384
CSV_BLOCK_BYTES = 4 << 20

_ARROW = {
    "string": pa.string(), "binary": pa.binary(), "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(),
    "int": pa.int32(), "bigint": pa.int64(), "decimal(20,0)": pa.decimal128(20, 0), "double": pa.float64(),
}  # fmt: skip


def files_of(paths: list[str], chosen: str | None) -> list[tuple[Path, str]]:
    """The files that are meant, with their formats; those of a directory in the order of their names."""
    found: list[tuple[Path, str]] = []
    for text in paths:
        path = Path(text)
        if path.is_dir():
            inner = [(each, _format(each, chosen)) for each in sorted(path.rglob("*")) if _is_data(each, path)]
            if not inner:
                raise problem(NotFound, FILE_INVALID, f"{path} is a directory without files to load")
            found += [(each, _needed(each, kind)) for each, kind in inner]
        elif path.is_file():
            found.append((path, _needed(path, _format(path, chosen))))
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
        raise problem(
            Invalid,
            FILE_INVALID,
            f"the name of {path} does not say what it is: give --format, one of {', '.join(FORMATS)}",
        )
    return kind


@contextlib.contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file of lines, unpacked when its name says that it is packed."""
    try:
        with pa.input_stream(str(path), compression="detect") as stream, io.BufferedReader(stream) as file:
            yield file
    except (pa.ArrowException, OSError) as e:
        raise problem(Invalid, FILE_INVALID, f"cannot read {path}: {e}") from e


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How a CSV file is written."""

    delimiter: str = ","
    escape: str | None = None
    null: str = ""
    data_format: str = "auto"


class Table:
    """One file: its columns, and its rows in batches."""

    def __init__(
        self, path: Path, kind: str, named: Mapping[str, str], schema: Schema | None, csv_options: CsvOptions
    ) -> None:
        self.path = path
        self._partitions = partitions(path)
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
                self._reader = _csv(path, known, csv_options)
                own = _with_bytes(self._reader.schema, self._base64)
        except (pa.ArrowException, OSError) as e:
            raise problem(Invalid, FILE_INVALID, f"cannot read {path} as {kind}: {e}") from e
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
            raise problem(Invalid, FILE_INVALID, f"cannot read {self.path}: {e}") from e

    def _decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same with bytes in place of their base64 (T4)."""
        arrays = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in self._base64:
                try:
                    texts = column.to_pylist()
                    raw = [None if text is None else base64.b64decode(text, validate=True) for text in texts]
                except ValueError as e:
                    raise problem(Invalid, FILE_INVALID, f"the column {name!r} of {self.path} is no base64: {e}") from e
                column = pa.array(raw, pa.binary())
            arrays.append(column)
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _csv(path: Path, known: Mapping[str, pa.DataType], options: CsvOptions) -> csv.CSVStreamingReader:
    types = {name: pa.string() if pa.types.is_binary(type_) else type_ for name, type_ in known.items()}
    return csv.open_csv(
        path,
        read_options=csv.ReadOptions(block_size=CSV_BLOCK_BYTES),
        parse_options=csv.ParseOptions(
            delimiter=options.delimiter, escape_char=options.escape or False, newlines_in_values=True
        ),
        convert_options=csv.ConvertOptions(
            column_types=types, null_values=[options.null], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )


def _types(named: Mapping[str, str], schema: Schema | None, data_format: str) -> dict[str, pa.DataType]:
    """The types of columns whose use is known (T1); dates are found out: milliseconds, or moments as text."""
    data = "binary" if data_format == "msgpack" else "string"
    kinds = {name: kind for name, kind in {**BEFORE, **AFTER, "data": data}.items() if kind != "timestamp"}
    known = {named.get(role, role): _ARROW[kind] for role, kind in kinds.items()}
    if schema is not None:
        columns = (one for one in layout(schema, "fields") if one.field_type is not None)
        known |= {one.name: _ARROW[FIELD_TYPES[one.field_type or ""]] for one in columns if one.kind != "timestamp"}
    return known


def _with_bytes(table: pa.Schema, names: set[str]) -> pa.Schema:
    return pa.schema([pa.field(each.name, pa.binary()) if each.name in names else each for each in table])


def partitions(path: Path) -> dict[str, pa.Scalar]:
    """The columns that the names of directories give (T2)."""
    found: dict[str, pa.Scalar] = {}
    for part in path.parts[:-1]:
        name, sign, text = part.partition("=")
        if sign and name:
            found[unquote(name)] = _scalar(unquote(text), AFTER.get(unquote(name)))
    return found


def _scalar(text: str, kind: str | None) -> pa.Scalar:
    if text == "__HIVE_DEFAULT_PARTITION__":
        return pa.scalar(None, _ARROW.get(kind or "string", pa.string()))
    if kind in _ARROW and kind != "string":
        return pa.scalar(int(text), _ARROW[kind])
    return pa.scalar(text)
