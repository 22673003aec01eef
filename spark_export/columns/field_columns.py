"""
The fields of a journal's schema as Arrow columns, and what they cannot say as JSON beside them (spark_export.columns.layout L1).

A column is taken from all rows at once and checked by the set of its types. Only a column with a value that does not fit (a generation from
before the schema, an int in a field that has become a float) is gone through value by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from journal.core.schema.schema import Schema
from journal.core.schema.types import INTEGERS, check_of
from journal.errors import Invalid
from spark_export.columns.json_codec import json_of
from spark_export.columns.layout import AS_JSON, FIELD_TYPES, MS_MAX, Column

ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "decimal(20,0)": pa.decimal128(20, 0),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_NONE = type(None)
_PYTHON: dict[str, type] = {
    "text": str, "bytes": bytes, "bool": bool, "float": float, "date_ms": int, **dict.fromkeys(INTEGERS, int),
}  # fmt: skip


class FieldColumns:
    """Makes the columns of fields that are wanted, and `data` if it is."""

    def __init__(self, schema: Schema, wanted: Sequence[Column]) -> None:
        self._has_data = any(column.name == "data" for column in wanted)
        names = {column.field: column.name for column in wanted if column.field is not None}
        # With `data` all fields are looked at: only then it is known whether they say everything.
        self._fields = [
            (field.name, field.type, names.get(field.name))
            for field in schema.fields
            if self._has_data or field.name in names
        ]

    def arrays(self, packed: pa.Array) -> dict[str, pa.Array]:
        """The columns of packed data, an array of binaries."""
        rows = _unpacked(packed)
        is_whole = np.ones(len(rows), bool)
        """Whether the fields say everything of a row."""
        for n, row in enumerate(rows) if set(map(type, rows)) != {dict} else ():
            if type(row) is not dict:
                is_whole[n] = False
        maps = rows if is_whole.all() else [row if type(row) is dict else {} for row in rows]
        found = np.zeros(len(rows), np.int64)
        made: dict[str, pa.Array] = {}
        for name, kind, column in self._fields:
            values = [row.get(name) for row in maps]
            array = _array(values, kind, name, is_whole)
            if column is not None:
                made[column] = array
            if self._has_data:
                found += np.asarray(array.is_valid())
        if self._has_data:
            is_whole &= found == np.fromiter(map(len, maps), np.int64, len(maps))
            if is_whole.all():
                made["data"] = pa.nulls(len(rows), pa.string())
            else:
                texts = [None if whole else json_of(row) for row, whole in zip(rows, is_whole.tolist(), strict=True)]
                made["data"] = pa.array(texts, pa.string())
        return made


def _unpacked(packed: pa.Array) -> list[Any]:
    """The values of all, read as the one stream that they are in the array."""
    _, _, whole = packed.buffers()
    offsets = np.frombuffer(packed.buffers()[1], np.int32)[packed.offset : packed.offset + len(packed) + 1]
    stream = memoryview(whole)[offsets[0] : offsets[-1]]
    unpacker = msgpack.Unpacker(strict_map_key=False, max_buffer_size=len(stream) + 1)
    unpacker.feed(stream)
    return list(unpacker)


def _array(values: list[Any], kind: str, name: str, is_whole: Any) -> pa.Array:
    """The column of a field; rows whose value it cannot say exactly are marked in `is_whole`."""
    if kind in AS_JSON:
        return pa.array([None if value is None else json_of(value) for value in values], pa.string())
    arrow = ARROW[FIELD_TYPES[kind]]
    if set(map(type, values)) <= {_PYTHON[kind], _NONE}:
        try:
            return _plain_array(values, kind, arrow)
        except (pa.ArrowInvalid, OverflowError):
            pass  # a number that is too large for it; found below
    return _plain_array(_fitting(values, kind, name, is_whole), kind, arrow)


def _plain_array(values: list[Any], kind: str, arrow: pa.DataType) -> pa.Array:
    if kind == "date_ms":
        return pc.multiply_checked(pa.array(values, pa.int64()), 1000).cast(arrow)
    return pa.array(values, arrow)


def _fitting(values: list[Any], kind: str, name: str, is_whole: Any) -> list[Any]:
    """The values that a column can hold; others are marked, and null unless the column has something close to them."""
    check = check_of(kind, name)
    found: list[Any] = []
    for n, value in enumerate(values):
        fits = value
        if value is not None:
            try:
                fits = check(value)
            except Invalid:
                fits = None
            if kind == "date_ms" and fits is not None and fits > MS_MAX:
                fits = None
            if type(fits) is not type(value):
                is_whole[n] = False
        found.append(fits)
    return found
