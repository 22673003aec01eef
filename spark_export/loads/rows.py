"""
The rows of a load out of Arrow batches: what a task makes of what Spark hands to it.

Columns stay columns, as a load block has them (`journal.loads`); only what msgpack packs is touched row by row.

R1  A row that cannot be turned into one of a load is listed with its position in the batch and the reason; it is never changed to fit, and
    never dropped in silence. What a row may be is not decided here: the journal does that when it is loaded.
R2  A date is cut to the millisecond, as everywhere in a journal. A null is the journal's own default: priority 100, due at once, no
    expiration.
R3  A field that is null is left out of the data: a table has no other way to say "absent".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pyarrow as pa
from pyarrow import compute as pc

from journal.core.entry import priority as priorities
from journal.core.entry.rows import pack_data
from journal.errors import Invalid
from journal.loads import encode_columns
from spark_export.columns.arrow_values import milliseconds, values_of
from spark_export.columns.json_codec import value_of
from spark_export.columns.mapping import ColumnMapping, FieldColumn

Bad = dict[int, str]
"""The rows of a batch that are refused, and why."""
_NONE = msgpack.packb(None)


class RefusedRow(NamedTuple):
    """A row that was refused: its position in what it came from, its key as far as it has one, and the reason."""

    row: int
    key: Any
    reason: str


class LoadRows(NamedTuple):
    """What became of a batch: the columns of a load block, in which one value stands for all rows."""

    keys: list[Any] | None
    data: list[bytes]
    priority: int | list[int]
    process_date: int | list[int | None] | None
    insertion_date: list[int | None] | None
    expiration: int | list[int]
    owner: str | list[str]
    rejected: list[RefusedRow]

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.data)

    def block(self) -> bytes:
        """The load block."""
        return encode_columns(*self[:7])


def rows_of(batch: pa.RecordBatch, columns: ColumnMapping, due: int | None = None) -> LoadRows:
    """The rows of a batch (R1). `due` is the process date of rows that give none; None: the moment of the load."""
    bad: Bad = {}
    packed = _data(batch, columns, bad)
    keys = _keys(batch, columns, bad)
    dates = [_dates(batch, name, bad) for name in (columns.process_date, columns.insertion_date, columns.expiration)]
    rejected = [RefusedRow(row, None if keys is None else keys[row], bad[row]) for row in sorted(bad)]
    if bad:
        good = [index for index in range(batch.num_rows) if index not in bad]
        batch = batch.take(pa.array(good, pa.int64()))
        packed = [packed[index] for index in good]
        keys = None if keys is None else [keys[index] for index in good]
        dates = [None if column is None else column.take(pa.array(good, pa.int64())) for column in dates]
    process_date, insertion_date, expiration = dates
    return LoadRows(
        keys,
        packed,
        _priorities(batch, columns),
        _listed(process_date, due),
        _listed(insertion_date, None),
        _listed(expiration, 0),
        _owners(batch, columns),
        rejected,
    )


# --- columns ----------------------------------------------------------------------------------------------------------


def _keys(batch: pa.RecordBatch, columns: ColumnMapping, bad: Bad) -> list[Any] | None:
    found = [batch.column(name) for name in (columns.key, columns.key_bytes) if name is not None]
    found = [column for column in found if column.null_count < len(column)]
    if not found:
        return None
    if len(found) == 1:
        keys: list[Any] = found[0].to_pylist()
        return keys
    keys = []
    for row, (text, raw) in enumerate(zip(found[0].to_pylist(), found[1].to_pylist(), strict=True)):
        if text is not None and raw is not None:
            bad.setdefault(row, f"{columns.key} and {columns.key_bytes} both have a key: one of them must be null")
        keys.append(raw if text is None else text)
    return keys


def _priorities(batch: pa.RecordBatch, columns: ColumnMapping) -> int | list[int]:
    if columns.priority is None:
        return priorities.DEFAULT
    column = batch.column(columns.priority).cast(pa.int64(), safe=False)
    filled: list[int] = pc.fill_null(column, priorities.DEFAULT).to_pylist()
    return filled


def _owners(batch: pa.RecordBatch, columns: ColumnMapping) -> str | list[str]:
    column = None if columns.owner is None else batch.column(columns.owner)
    if column is None or column.null_count == len(column):
        return ""
    owners: list[str] = pc.fill_null(column.cast(pa.string()), "").to_pylist()
    return owners


def _dates(batch: pa.RecordBatch, name: str | None, bad: Bad) -> pa.Array | None:
    """The dates of a column, in milliseconds."""
    column = None if name is None else batch.column(name)
    if column is None:
        return None
    try:
        return milliseconds(column)
    except pa.ArrowInvalid:
        pass  # one of them has too many bits: find out which
    found: list[int | None] = []
    for row in range(len(column)):
        try:
            found += milliseconds(column.slice(row, 1)).to_pylist()
        except pa.ArrowInvalid as e:
            bad.setdefault(row, f"{name} has no place in 63 bits of milliseconds: {e}")
            found.append(None)
    return pa.array(found, pa.int64())


def _listed(dates: pa.Array | None, default: int | None) -> Any:
    if dates is None or dates.null_count == len(dates):
        return default
    return (dates if default is None else pc.fill_null(dates, default)).to_pylist()


# --- the data ---------------------------------------------------------------------------------------------------------


def _data(batch: pa.RecordBatch, columns: ColumnMapping, bad: Bad) -> list[bytes]:
    """The packed data of each row; of one that is refused, whatever its bytes."""
    whole = None if columns.data is None else batch.column(columns.data)
    if whole is None or (columns.fields and whole.null_count == len(whole)):
        return _fields(batch, columns.fields, bad)
    refused: Bad = {}
    packed = whole_data(whole, columns.data_format, refused)
    if columns.fields and whole.null_count:
        missed: Bad = {}
        absent = np.nonzero(np.asarray(whole.is_null()))[0].tolist()
        for row, one in zip(absent, _fields(batch.take(pa.array(absent)), columns.fields, missed), strict=True):
            packed[row] = one
        refused |= {absent[row]: reason for row, reason in missed.items()}
    bad |= refused
    return packed


def whole_data(column: pa.Array, data_format: str, bad: Bad) -> list[bytes]:
    """The packed data of a column that is the whole of it."""
    if data_format == "msgpack":
        found: list[bytes] = (pc.fill_null(column, _NONE) if column.null_count else column).to_pylist()
        return found
    if data_format == "json":
        return _packed(column.to_pylist(), lambda text: None if text is None else value_of(text), bad)
    return _packed(_values(column, None, "the data", bad), None, bad)


def _fields(batch: pa.RecordBatch, fields: tuple[FieldColumn, ...], bad: Bad) -> list[bytes]:
    if not fields:
        return [_NONE] * batch.num_rows
    names = [one.field for one in fields]
    columns = [batch.column(one.column) for one in fields]
    found = [
        _values(column, one.declared, f"the field {one.field!r}", bad)
        for column, one in zip(columns, fields, strict=True)
    ]
    rows = zip(*found, strict=True)
    if any(column.null_count for column in columns):
        maps = [{name: one for name, one in zip(names, row, strict=True) if one is not None} for row in rows]  # R3
    else:
        maps = [dict(zip(names, row, strict=True)) for row in rows]
    return _packed(maps, None, bad)


def _values(column: pa.Array, declared: str | None, what: str, bad: Bad) -> list[Any]:
    try:
        return values_of(column, declared)
    except Invalid:
        pass  # JSON that is none, or a map with a key twice: find out where
    found = []
    for row in range(len(column)):
        try:
            found += values_of(column.slice(row, 1), declared)
        except Invalid as e:
            bad.setdefault(row, f"{what}: {e}")
            found.append(None)
    return found


def _packed(values: list[Any], convert: Callable[[Any], Any] | None, bad: Bad) -> list[bytes]:
    pack = msgpack.Packer().pack
    try:
        return [pack(value) for value in (values if convert is None else map(convert, values))]
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass  # one of them cannot be stored: find out which
    packed = []
    for row, value in enumerate(values):
        try:
            packed.append(pack_data(value if convert is None else convert(value)))
        except Invalid as e:
            packed.append(_NONE)
            bad.setdefault(row, str(e))
    return packed
