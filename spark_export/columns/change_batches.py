"""
The changes of a journal as rows of Spark: their columns, and events turned into Arrow batches.

    cursor        string      its place in the log, as text
    order         int         the generation of that place
    offset        long        and the offset in it
    op            string      insert, update, delete, command or noop: what became of the key's entry
    verb          string      put, claim, done, …: what was done
    timestamp     timestamp   when
    namespace     string      the journal
    key           string      when it is text
    key_bytes     binary      when it is bytes
    data          string      JSON (spark_export.columns.json_codec) of the data after the change, or binary with decode msgpack;
                              null: it wrote none
    old           …           the data before it, where the log keeps it (`log_old`), likewise
    priority      short
    process_date  timestamp
    version       long
    owner         string
    consumer      string      the consumer that claimed
    reason        string      why it was buried

C1  One row for each change, in the order of the log within a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from journal.core.entry.rows import pack_data
from spark_export.columns.json_codec import json_of
from spark_export.columns.layout import MS_MAX, Column
from spark_export.errors import DATE_RANGE, invalid

if TYPE_CHECKING:
    from journal.core.log.events import Event

BATCH_ROWS = 8_192


def change_columns(decode: str) -> tuple[Column, ...]:
    """All columns of a change."""
    data = "binary" if decode == "msgpack" else "string"
    kinds = {
        "cursor": "string", "order": "int", "offset": "bigint", "op": "string", "verb": "string", "timestamp": "timestamp",
        "namespace": "string", "key": "string", "key_bytes": "binary", "data": data, "old": data, "priority": "smallint",
        "process_date": "timestamp", "version": "bigint", "owner": "string", "consumer": "string", "reason": "string",
    }  # fmt: skip
    return tuple(Column(name, kind) for name, kind in kinds.items())


def batches_of(events: Iterable[Event], arrow: pa.Schema, decode: str) -> Iterator[pa.RecordBatch]:
    """The rows of events, as batches of this schema."""
    source = iter(events)
    while some := list(islice(source, BATCH_ROWS)):
        yield _batch(some, arrow, decode)


def _batch(events: list[Event], arrow: pa.Schema, decode: str) -> pa.RecordBatch:
    write = pack_data if decode == "msgpack" else json_of
    cursors = [event.cursor for event in events]
    keys = [event.key for event in events]
    columns: list[list[Any]] = [
        [str(cursor) for cursor in cursors],
        [cursor.order for cursor in cursors],
        [cursor.offset for cursor in cursors],
        [event.op for event in events],
        [event.verb for event in events],
        [_us(event.timestamp, event) for event in events],
        [event.namespace for event in events],
        [key if type(key) is str else None for key in keys],
        [key if type(key) is bytes else None for key in keys],
        [write(event.data) if event.has_data else None for event in events],
        [write(event.old) if event.has_old else None for event in events],
        [event.priority for event in events],
        [_us(event.process_date, event) for event in events],
        [event.version for event in events],
        [event.owner for event in events],
        [event.consumer for event in events],
        [event.reason for event in events],
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, arrow, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)


def _us(ms: int | None, event: Event) -> int | None:
    if ms is None:
        return None
    if ms > MS_MAX:
        raise invalid(
            DATE_RANGE, f"the change {event.cursor} has the date {ms} ms, which a timestamp of Spark cannot hold"
        )
    return ms * 1000
