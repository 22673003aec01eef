"""
Columns of Arrow as tables of messages.

A1  A table has at least one row, and PART_ROWS at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from spark_export.pipelines.message import INSERT, message_schema

PART_ROWS = 10_000


def message_table(
    namespace: str,
    arrays: Sequence[pa.Array],
    fields: Sequence[pa.Field],
    *,
    key: Sequence[str],
    ops: Sequence[str] | str = INSERT,
    timestamps: Sequence[int] | int = 0,
) -> pa.Table:
    """Rows as messages; the arrays are columns of the data."""
    data = pa.StructArray.from_arrays(list(arrays), fields=list(fields))
    count = len(data)
    return pa.table(
        [
            pa.array(range(count), pa.int64()),
            pa.array([ops] * count if isinstance(ops, str) else ops, pa.string()),
            pa.array([timestamps] * count if isinstance(timestamps, int) else timestamps, pa.int64()),
            pa.array([namespace] * count, pa.string()),
            data,
        ],
        schema=message_schema(data.type, key),
    )


def insert_tables(namespace: str, rows: pa.Table, key: Sequence[str], timestamp: int) -> Iterator[pa.Table]:
    """Rows of a table as inserts, in parts (A1)."""
    for start in range(0, rows.num_rows, PART_ROWS):
        some = rows.slice(start, PART_ROWS).combine_chunks()
        arrays = [
            column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in some.itercolumns()
        ]
        yield message_table(namespace, arrays, list(some.schema), key=key, timestamps=timestamp)
