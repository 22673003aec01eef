"""
The layout of a journal as a schema of Spark: types, and what each column means in its metadata.

A writer of a DataFrame finds there which field a column is (spark_export.columns.layout L3), also after it went through Parquet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from spark_export.columns.field_columns import ARROW
from spark_export.columns.layout import FIELD, TIMELINE, TYPE, Column
from spark_export.errors import COLUMN_UNKNOWN, invalid

SPARK = {name: from_arrow_type(kind) for name, kind in ARROW.items()}


def struct_of(columns: Iterable[Column], timeline: str) -> StructType:
    """The schema of these columns."""
    return StructType([StructField(each.name, SPARK[each.kind], True, _metadata(each, timeline)) for each in columns])


def _metadata(column: Column, timeline: str) -> dict[str, str]:
    found: dict[str, str] = {}
    if column.field is not None and column.field_type is not None:
        found |= {FIELD: column.field, TYPE: column.field_type}
    if column.is_date:
        found[TIMELINE] = timeline
    return found


def chosen(columns: Sequence[Column], names: Sequence[str] | None) -> tuple[Column, ...]:
    """The columns that are wanted, in the order in which they were named; all without names."""
    if names is None:
        return tuple(columns)
    by_name = {column.name.lower(): column for column in columns}
    found: list[Column] = []
    for name in names:
        column = by_name.get(name.lower())
        if column is None:
            near = get_close_matches(name.lower(), list(by_name), n=1)
            hint = f"did you mean {by_name[near[0]].name!r}?" if near else ""
            known = ", ".join(each.name for each in columns)
            raise invalid(COLUMN_UNKNOWN, f"there is no column {name!r}: {hint or f'the columns are {known}'}")
        found.append(column)
    return tuple(found)


def same_columns(one: StructType, other: StructType) -> bool:
    """Whether two schemas have the same columns, with the same meaning; nullability aside."""
    return [(f.name, f.dataType, f.metadata or {}) for f in one] == [
        (f.name, f.dataType, f.metadata or {}) for f in other
    ]
