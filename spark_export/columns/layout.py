"""
The columns that an entry has in Spark, for readers and writers alike. Pure: no Spark, no Arrow.

    key             string      the key when it is text, else null
    key_bytes       binary      the key when it is bytes, else null
    <fields>        …           one for each field of the journal's schema (FIELD_TYPES); none without one, or with decode json, msgpack
    data            string      JSON (spark_export.columns.json_codec), or with decode msgpack: binary, the bytes as they are stored
    priority        short
    process_date    timestamp
    insertion_date  timestamp
    expiration      timestamp   null: never
    status          string      W (waiting) or P (processing)
    timeouts        short
    owner           string      null: none
    version         long
    start_date      timestamp   of the lease; null while waiting
    deadline        timestamp   of the lease; null while waiting
    consumer        string      of the lease; null while waiting

L1  Beside fields, `data` is null where the fields say everything; a null field is one that was not given. Where they cannot (a None
    that was given, an int in a field that has become a float, data that is no map), `data` has the whole, and counts: nothing is
    lost on the way out and back.
L2  A field whose name is that of a column of ours, or differs from another's only in case, gets `data_` in front, as often as it takes.
    Spark does not tell `Key` from `key`.
L3  A column of a field has "journal.field" and "journal.type" in its metadata; a date of ours or of a field has "journal.timeline".
"""

from __future__ import annotations

from typing import NamedTuple

from journal.core.schema.schema import Schema

FIELD = "journal.field"
TYPE = "journal.type"
TIMELINE = "journal.timeline"

# The types by the names that Spark has for them in DDL.
BEFORE: dict[str, str] = {"key": "string", "key_bytes": "binary"}
AFTER: dict[str, str] = {
    "priority": "smallint",
    "process_date": "timestamp",
    "insertion_date": "timestamp",
    "expiration": "timestamp",
    "status": "string",
    "timeouts": "smallint",
    "owner": "string",
    "version": "bigint",
    "start_date": "timestamp",
    "deadline": "timestamp",
    "consumer": "string",
}


class RowFilter(NamedTuple):
    """Which entries are rows; None: all."""

    status: str | None = None
    priorities: tuple[int, ...] | None = None
    since: int | None = None
    until: int | None = None
    key_prefix: str | None = None


MS_MAX = ((1 << 63) - 1) // 1000
"""The last date that a timestamp of Spark, in microseconds, can hold."""
DATES = frozenset(name for name, kind in AFTER.items() if kind == "timestamp")

FIELD_TYPES: dict[str, str] = {
    "text": "string",
    "bytes": "binary",
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int": "bigint",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "float": "double",
    "date_ms": "timestamp",
    # What is inside has no declared type, so it is JSON, as `data` is without a schema.
    "list": "string",
    "map": "string",
    "any": "string",
}
AS_JSON = frozenset({"list", "map", "any"})


class Column(NamedTuple):
    """One column: its name, its type in Spark's DDL, and the field of the schema that it stands for."""

    name: str
    kind: str
    field: str | None = None
    field_type: str | None = None

    @property
    def is_date(self) -> bool:
        """Whether its meaning depends on the journal's timeline."""
        return self.kind == "timestamp"


def has_fields(schema: Schema | None, decode: str) -> bool:
    """Whether the data comes as fields."""
    return schema is not None and decode in ("auto", "fields")


def layout(schema: Schema | None, decode: str) -> tuple[Column, ...]:
    """All columns of a journal, in order."""
    fields: list[Column] = []
    if schema is not None and has_fields(schema, decode):
        used = {*BEFORE, "data", *AFTER}
        for field in schema.fields:
            name = field.name
            while name.lower() in used:
                name = f"data_{name}"  # L2
            used.add(name.lower())
            fields.append(Column(name, FIELD_TYPES[field.type], field.name, field.type))
    data = Column("data", "binary" if decode == "msgpack" else "string")
    own = [Column(name, kind) for name, kind in BEFORE.items()]
    rest = [Column(name, kind) for name, kind in AFTER.items()]
    return (*own, *fields, data, *rest)
