"""
CSV, in and out, so that values stay what they are.

C1  A column whose type is known (by its use, or from the journal's schema) has it, a date is found out from its values; any other is text,
    as it stands: 00501 is no number. `types` = infer finds them all out, from the first CSV_BLOCK_BYTES of a file.
C2  Bytes that are no UTF-8 are refused, with their row and column: there is no telling what they mean.
C3  Arrow drops an escape character wherever it stands, Spark writes it within quotes only: where it would vanish, the file is refused.
C4  What an export writes has its quotes doubled, and its spaces kept, unless its options say otherwise.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
from pyarrow import csv

from journal.errors import Invalid
from spark_export.errors import FILE_INVALID, OPTION_INVALID, invalid

CSV_BLOCK_BYTES = 4 << 20
TYPES = ("text", "infer")
LOSSLESS = {"escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
"""Options of Spark's writer (C4)."""


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How a CSV file is written."""

    delimiter: str = ","
    escape: str | None = None
    null: str = ""
    data_format: str = "auto"
    types: str = "text"

    def __post_init__(self) -> None:
        for name, text in (("delimiter", self.delimiter), ("escape", self.escape)):
            if text is not None and (len(text) != 1 or not text.isascii() or text in '\r\n\0"'):
                raise invalid(
                    OPTION_INVALID,
                    f"the {name} of CSV is {text!r}: it must be one character of ASCII, and neither a quote nor the end of a line",
                )


@contextlib.contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file of lines, unpacked when its name says that it is packed."""
    try:
        with pa.input_stream(str(path), compression="detect") as stream, io.BufferedReader(stream) as file:
            yield file
    except (pa.ArrowException, OSError) as e:
        raise invalid(FILE_INVALID, f"cannot read {path}: {e}") from e


def open_csv(
    path: Path, known: Mapping[str, pa.DataType], found_out: frozenset[str], options: CsvOptions
) -> csv.CSVStreamingReader:
    """A reader of a file whose columns have these types, or one that is found out, or text (C1)."""
    types = {name: pa.string() if pa.types.is_binary(type_) else type_ for name, type_ in known.items()}
    _check_escapes(path, options)
    if options.types == "text":
        names = _names(path, options)
        types = {name: pa.string() for name in names if name not in found_out} | types
    reader = _reader(path, types, options)
    if any(pa.types.is_binary(one.type) for one in reader.schema):
        raise not_utf8(path, options)  # so Arrow takes what is no text
    return reader


def is_about_utf8(error: Exception) -> bool:
    """Whether Arrow has met bytes that are no text."""
    return "UTF8" in str(error)


def not_utf8(path: Path, options: CsvOptions) -> Invalid:
    """The error of a file with such bytes (C2)."""
    names = _names(path, options)
    first = 1
    for batch in _reader(path, dict.fromkeys(names, pa.binary()), options):
        found = [(row, column) for column, values in enumerate(batch.columns) if (row := _bad_row(values)) is not None]
        if found:
            row, column = min(found)
            value = batch.column(column)[row].as_py()
            text = f"row {first + row} (the first behind the header is 1), column {names[column]!r}, has {value[:40]!r}"
            return invalid(FILE_INVALID, f"{path} is no UTF-8: {text}. Convert it, e.g. with iconv")
        first += batch.num_rows
    return invalid(FILE_INVALID, f"{path} is no UTF-8. Convert it, e.g. with iconv")


def _bad_row(values: pa.Array) -> int | None:
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        for row, value in enumerate(values.to_pylist()):
            try:
                (value or b"").decode()
            except UnicodeDecodeError:
                return row
    return None


def _names(path: Path, options: CsvOptions) -> list[str]:
    try:
        names: list[str] = _reader(path, {}, options).schema.names
    except UnicodeDecodeError as e:
        raise invalid(FILE_INVALID, f"the header of {path} is no UTF-8: {e.object!r}. Convert it") from e
    return names


def _reader(path: Path, types: Mapping[str, pa.DataType], options: CsvOptions) -> csv.CSVStreamingReader:
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


def _check_escapes(path: Path, options: CsvOptions) -> None:
    """Refuse a file with an escape character before something that needs none (C3)."""
    if options.escape is None:
        return
    sign = options.escape.encode()
    means_something = {b'"', b"\n", b"\r", sign, options.delimiter.encode()}
    pair = re.compile(re.escape(sign) + b"(.)", re.DOTALL)
    line, rest = 1, b""
    with opened(path) as file:
        while piece := file.read(1 << 20):
            data = rest + piece
            end = 0
            for found in pair.finditer(data):
                end = found.end()
                if found[1] not in means_something:
                    line += data.count(b"\n", 0, found.start())
                    shown = found[0].decode(errors="replace")
                    raise invalid(
                        FILE_INVALID,
                        f"line {line} of {path} has {shown!r}, which --escape would change to {shown[1:]!r}. Leave --escape out if quotes "
                        "are doubled, as an export does it; have Spark's own CSV written with escape='\"'",
                    )
            rest = sign if data.endswith(sign) and end < len(data) else b""
            line += data.count(b"\n", 0, len(data) - len(rest))
