"""
Messages: what flows from a source through the commit log to the sinks, one by one or as tables of Arrow.

A message has an id (its place in the commit log, counted from 0), an op, a timestamp, a namespace and data. A table of messages has these
five columns, `data` being a struct; all its rows have one namespace and one set of columns. The names of the columns that identify a row
of the source are in the metadata of the table's schema.

M1  The columns of a table are exactly ID, OP, TIMESTAMP, NAMESPACE and DATA, in this order, with these types.
M2  A column that a change does not carry (an unchanged large value of PostgreSQL) is absent from the struct, not null: null is a value.
M3  A delete carries at least the key's columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

ID, OP, TIMESTAMP, NAMESPACE, DATA = COLUMNS = ("id", "op", "timestamp", "namespace", "data")
INSERT, UPDATE, DELETE, COMMAND, NOOP = OPS = ("insert", "update", "delete", "command", "noop")
KEY_METADATA = b"journal.key"


class Message(NamedTuple):
    """One message, as functions over a message and operators see it."""

    id: int
    op: str
    timestamp: int
    namespace: str
    data: dict[str, Any]


def message_schema(data: pa.DataType, key: Sequence[str] = ()) -> pa.Schema:
    """The schema of a table of messages with this struct as data, and these columns of it as the key."""
    return pa.schema(
        [
            pa.field(ID, pa.int64(), nullable=False),
            pa.field(OP, pa.string(), nullable=False),
            pa.field(TIMESTAMP, pa.int64(), nullable=False),
            pa.field(NAMESPACE, pa.string(), nullable=False),
            pa.field(DATA, data, nullable=False),
        ],
        metadata={KEY_METADATA: json.dumps(list(key)).encode()},
    )


def key_of(schema: pa.Schema) -> tuple[str, ...]:
    """The names of the columns that identify a row of the source; none when the source has no key."""
    return tuple(json.loads((schema.metadata or {}).get(KEY_METADATA, b"[]")))


def table_of(
    namespace: str,
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, pa.DataType],
    *,
    key: Sequence[str] = (),
    ops: Sequence[str] | str = INSERT,
    timestamps: Sequence[int] | int = 0,
    first: int = 0,
) -> pa.Table:
    """Rows of Python values as a table of messages; the values must fit the columns' types."""
    struct = pa.struct([pa.field(name, kind) for name, kind in columns.items()])
    count = len(rows)
    return pa.table(
        [
            pa.array(range(first, first + count), pa.int64()),
            pa.array([ops] * count if isinstance(ops, str) else ops, pa.string()),
            pa.array([timestamps] * count if isinstance(timestamps, int) else timestamps, pa.int64()),
            pa.array([namespace] * count, pa.string()),
            pa.array([dict(row) for row in rows], struct),
        ],
        schema=message_schema(struct, key),
    )


def with_ids(table: pa.Table, first: int) -> pa.Table:
    """The same messages, numbered from here on."""
    return table.set_column(0, table.schema.field(ID), pa.array(range(first, first + table.num_rows), pa.int64()))


def messages_of(tables: Iterable[pa.Table]) -> Iterable[Message]:
    """The messages of tables, in their order."""
    for table in tables:
        for row in table.to_pylist():
            yield Message(row[ID], row[OP], row[TIMESTAMP], row[NAMESPACE], row[DATA])
