"""
Values of Arrow columns as an entry's data has them, and as its dates.

    timestamp                       milliseconds since the epoch
    date, time                      text, as ISO 8601 has it: a day is no moment
    decimal without a fraction      an integer
    struct, map, list               map, map, list, with what is inside turned likewise
    string of a list, map or any    what its JSON says (spark_export.columns.json_codec): so a reader writes these fields
    all others                      as they are
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import types as kinds

from journal.errors import Invalid
from spark_export.columns.json_codec import value_of
from spark_export.columns.layout import AS_JSON

Convert = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_FINER = {"us": 1_000, "ns": 1_000_000}
_COARSER = {"s": 1_000, "ms": 1}


def milliseconds(column: pa.Array) -> pa.Array:
    """
    A column of timestamps, or of numbers that are milliseconds already, as milliseconds since the epoch, cut downwards.

    ArrowInvalid when one of them has more than 63 bits.
    """
    kind = column.type
    ticks = column.cast(pa.int64())
    if not kinds.is_timestamp(kind):
        return ticks
    if kind.unit in _COARSER:
        return pc.multiply_checked(ticks, _COARSER[kind.unit])
    # Arrow's division goes towards 0: the nulls are kept aside, and numpy's goes downwards.
    divided = np.floor_divide(np.asarray(pc.fill_null(ticks, 0)), _FINER[kind.unit])
    return pa.array(divided, pa.int64(), mask=np.asarray(ticks.is_null()) if ticks.null_count else None)


def values_of(column: pa.Array, declared: str | None) -> list[Any]:
    """The values of a column that is a field of this type; None: nothing is declared."""
    kind = column.type
    if kinds.is_timestamp(kind):
        try:
            found: list[Any] = milliseconds(column).to_pylist()
        except pa.ArrowInvalid as e:
            raise Invalid(f"a date has no place in 63 bits of milliseconds: {e}") from e
        return found
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict") if kinds.is_nested(kind) else column.to_pylist()
    except KeyError as e:
        raise Invalid("a map has a key twice") from e
    convert = _conversion(kind)
    if convert is None and declared in AS_JSON and (kinds.is_string(kind) or kinds.is_large_string(kind)):
        convert = value_of
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _conversion(kind: pa.DataType) -> Convert | None:
    """What turns a value of this type into what is stored; None: it is stored as it is."""
    if kinds.is_timestamp(kind):
        return lambda value: (value - _EPOCH) // _MS
    if kinds.is_date(kind) or kinds.is_time(kind):
        return lambda value: str(value.isoformat())
    if kinds.is_decimal(kind):
        return int
    if kinds.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return _each({field.name: found for field in fields if (found := _conversion(field.type)) is not None})
    if kinds.is_map(kind):
        inner = _conversion(kind.item_type)
        return None if inner is None else _in_map(inner)
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        inner = _conversion(kind.value_type)
        return None if inner is None else _in_list(inner)
    return None


def _each(fields: dict[str, Convert]) -> Convert | None:
    if not fields:
        return None
    return lambda value: {name: _or_none(fields[name], one) if name in fields else one for name, one in value.items()}


def _in_map(inner: Convert) -> Convert:
    return lambda value: {name: _or_none(inner, one) for name, one in value.items()}


def _in_list(inner: Convert) -> Convert:
    return lambda value: [_or_none(inner, one) for one in value]


def _or_none(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)
