"""
The rows of a load out of Arrow batches: what a task makes of what Spark hands to it.

A row of a load is (key, packed data, priority, process date, insertion date, expiration, owner), as `journal.loads` has it.
Columns are checked as columns, with Arrow; only what msgpack packs is touched row by row.

R1  A row is good, or it is listed with its position in the batch and the reason; it is never changed to fit, and never dropped in silence.
R2  A date is cut to the millisecond, as everywhere in a journal. A null is the journal's own default: priority 100, due at once, no
    expiration.
R3  A field that is null is left out of the data: a table has no other way to say "absent".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pyarrow as pa
from pyarrow import compute as pc

from journal.core import priority as priorities
from journal.core.limits import KEY_BYTES_MAX, OWNER_BYTES_MAX, PRIORITY_MAX
from journal.core.rows import pack_data
from journal.errors import Invalid
from spark_export.jsondata import value_of
from spark_export.mapping import Columns, FieldColumn, is_text
from spark_export.values import milliseconds, values_of

Row = tuple[Any, bytes, int, int | None, int | None, int, str]
Bad = dict[int, str]
"""The rows of a batch that are refused, and why."""
_NONE = msgpack.packb(None)


class Rejected(NamedTuple):
    """A row that was refused: its position in what it came from, its key as far as it has one, and the reason."""

    row: int
    key: Any
    reason: str


class Made(NamedTuple):
    """What became of a batch."""

    rows: list[Row]
    positions: Sequence[int]
    """Where in the batch each of the rows was."""
    rejected: list[Rejected]


def rows_of(batch: pa.RecordBatch, columns: Columns, due: int | None = None) -> Made:
    """The rows of a batch (R1). `due` is the process date of rows that give none; None: the moment of the load."""
    bad: Bad = {}
    positions: Sequence[int] = range(batch.num_rows)
    packed = _data(batch, columns, bad)
    _check(batch, columns, bad)
    rejected = _rejected(batch, columns, bad)
    if bad:
        positions = [index for index in range(batch.num_rows) if index not in bad]
        batch = batch.take(pa.array(positions, pa.int64()))
        packed = [packed[index] for index in positions]
    rows = list(
        zip(
            _keys(batch, columns),
            packed,
            _priorities(batch, columns),
            _dates(batch, columns.process_date, due),
            _dates(batch, columns.insertion_date, None),
            _dates(batch, columns.expiration, 0),
            _owners(batch, columns),
            strict=False,  # what no column gives is repeated without end; the data is a list
        )
    )
    return Made(rows, positions, rejected)


# --- columns ----------------------------------------------------------------------------------------------------------


def _keys(batch: pa.RecordBatch, columns: Columns) -> Iterable[Any]:
    texts = None if columns.key is None else batch.column(columns.key)
    others = None if columns.key_bytes is None else batch.column(columns.key_bytes)
    if others is None or others.null_count == len(others):
        return repeat(None) if texts is None else texts.to_pylist()
    if texts is None or texts.null_count == len(texts):
        return others.to_pylist()  # type: ignore[no-any-return] # pyarrow has no types
    return [b if a is None else a for a, b in zip(texts.to_pylist(), others.to_pylist(), strict=True)]


def _priorities(batch: pa.RecordBatch, columns: Columns) -> Iterable[int]:
    if columns.priority is None:
        return repeat(priorities.DEFAULT)
    column = batch.column(columns.priority).cast(pa.int64())
    filled: list[int] = pc.fill_null(column, priorities.DEFAULT).to_pylist()
    return filled


def _owners(batch: pa.RecordBatch, columns: Columns) -> Iterable[str]:
    if columns.owner is None:
        return repeat("")
    owners: list[str] = pc.fill_null(batch.column(columns.owner).cast(pa.string()), "").to_pylist()
    return owners


def _dates(batch: pa.RecordBatch, name: str | None, default: int | None) -> Iterable[Any]:
    if name is None:
        return repeat(default)
    column = milliseconds(batch.column(name))
    if column.null_count and default is not None:
        column = pc.fill_null(column, default)
    dates: list[int | None] = column.to_pylist()
    return dates


# --- what is refused --------------------------------------------------------------------------------------------------


def _check(batch: pa.RecordBatch, columns: Columns, bad: Bad) -> None:
    _check_keys(batch, columns, bad)
    if columns.priority is not None:
        priority = batch.column(columns.priority).cast(pa.int64(), safe=False)
        outside = pc.or_(pc.less(priority, 0), pc.greater(priority, PRIORITY_MAX))
        _mark(bad, outside, lambda row: f"the priority is {priority[row]}: it must be from 0 to {PRIORITY_MAX}")
    for role in ("process_date", "insertion_date", "expiration"):
        _check_date(batch, role, getattr(columns, role), bad)
    if columns.owner is not None:
        size = _byte_length(batch.column(columns.owner))
        too_long = pc.greater(size, OWNER_BYTES_MAX)
        _mark(bad, too_long, lambda row: f"the owner has {size[row]} bytes: it has at most {OWNER_BYTES_MAX}")


def _check_keys(batch: pa.RecordBatch, columns: Columns, bad: Bad) -> None:
    given = [batch.column(name) for name in (columns.key, columns.key_bytes) if name is not None]
    for column in given:
        size = _byte_length(column)
        wrong = pc.or_(pc.less(size, 1), pc.greater(size, KEY_BYTES_MAX))
        _mark(bad, wrong, _key_length(size))
    if not given:
        return
    absent = [column.is_null() for column in given]
    if len(given) == 2:
        both = pc.invert(pc.or_(*absent))
        _mark(bad, both, lambda row: f"{columns.key} and {columns.key_bytes} both have a key: one of them must be null")
    if not columns.is_key_formed:
        _mark(
            bad, absent[0] if len(given) == 1 else pc.and_(*absent), lambda row: "there is no key: every entry has one"
        )


def _key_length(size: pa.Array) -> Callable[[int], str]:
    return lambda row: f"the key has {size[row]} bytes: it has 1 to {KEY_BYTES_MAX}"


def _check_date(batch: pa.RecordBatch, role: str, name: str | None, bad: Bad) -> None:
    if name is not None:
        ms = milliseconds(batch.column(name))
        _mark(bad, pc.less(ms, 0), lambda row: f"the {role} is {ms[row]} ms: dates begin with 0 ms, in 1970")


def _byte_length(column: pa.Array) -> pa.Array:
    return pc.binary_length(column.cast(pa.binary()) if is_text(column.type) else column)


def _mark(bad: Bad, is_bad: pa.Array, reason: Callable[[int], str]) -> None:
    """Note the rows where it is true, unless there is a reason already; where it is null, all is well."""
    if pc.any(is_bad).as_py():
        for row in np.nonzero(np.asarray(pc.fill_null(is_bad, False)))[0].tolist():
            bad.setdefault(row, reason(row))


def _rejected(batch: pa.RecordBatch, columns: Columns, bad: Bad) -> list[Rejected]:
    keys = [batch.column(name) for name in (columns.key, columns.key_bytes) if name is not None]
    found = []
    for row in sorted(bad):
        key = next((key for column in keys if (key := column[row].as_py()) is not None), None)
        found.append(Rejected(row, key, bad[row]))
    return found


# --- the data ---------------------------------------------------------------------------------------------------------


def _data(batch: pa.RecordBatch, columns: Columns, bad: Bad) -> list[bytes]:
    """The packed data of each row; of one that is refused, whatever its bytes."""
    whole = None if columns.data is None else batch.column(columns.data)
    if whole is None or (columns.fields and whole.null_count == len(whole)):
        return _fields(batch, columns.fields, bad)
    refused: Bad = {}
    packed = _whole(whole, columns.data_format, refused)
    if columns.fields and whole.null_count:
        missed: Bad = {}
        absent = np.nonzero(np.asarray(whole.is_null()))[0].tolist()
        for row, one in zip(absent, _fields(batch.take(pa.array(absent)), columns.fields, missed), strict=True):
            packed[row] = one
        refused |= {absent[row]: reason for row, reason in missed.items()}
    bad |= refused
    return packed


def _whole(column: pa.Array, data_format: str, bad: Bad) -> list[bytes]:
    if data_format == "msgpack":
        found: list[bytes] = (pc.fill_null(column, _NONE) if column.null_count else column).to_pylist()
        return found
    if data_format == "json":
        return _packed(column.to_pylist(), lambda text: None if text is None else value_of(text), bad)
    return _packed(values_of(column, None), None, bad)


def _fields(batch: pa.RecordBatch, fields: tuple[FieldColumn, ...], bad: Bad) -> list[bytes]:
    if not fields:
        return [_NONE] * batch.num_rows
    names = [one.field for one in fields]
    columns = [batch.column(one.column) for one in fields]
    found = [_values(column, one, bad) for column, one in zip(columns, fields, strict=True)]
    rows = zip(*found, strict=True)
    if any(column.null_count for column in columns):
        maps = [{name: one for name, one in zip(names, row, strict=True) if one is not None} for row in rows]  # R3
    else:
        maps = [dict(zip(names, row, strict=True)) for row in rows]
    return _packed(maps, None, bad)


def _values(column: pa.Array, field: FieldColumn, bad: Bad) -> list[Any]:
    try:
        return values_of(column, field.declared)
    except Invalid:
        pass  # JSON that is none: find out where
    found = []
    for row in range(len(column)):
        try:
            found += values_of(column.slice(row, 1), field.declared)
        except Invalid as e:
            bad.setdefault(row, f"the field {field.field!r}: {e}")
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
