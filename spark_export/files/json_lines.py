"""
Rows of a load out of JSON lines: an object a line, with the columns of spark_export.columns.mapping as names.

JSON has no columns: a line may have what the one before it has not, and a number where that had a text. So lines are taken one by one,
and a line that is wrong is a row that is rejected.

    dates       milliseconds, or ISO 8601 with a time zone
    key_bytes   base64, as Spark writes bytes; a field of bytes likewise
    data        any value; a text is the JSON of one, as a reader gives it (data_format=value: it is a text; msgpack: base64 of it)

J1  A null is a value that is not given, as in a table.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from journal.core.entry import priority as priorities
from journal.core.entry.rows import pack_data
from journal.core.schema.schema import Schema
from journal.core.times import date_ms
from journal.errors import Invalid
from spark_export.columns.json_codec import real_of, value_of
from spark_export.columns.layout import AS_JSON, layout
from spark_export.columns.mapping import READ_ONLY, ROLES
from spark_export.loads.rows import LoadRows, RefusedRow

BLOCK_ROWS = 16_384


class JsonLines:
    """Makes rows of lines."""

    def __init__(self, named: Mapping[str, str], schema: Schema | None, data_format: str, due: int | None) -> None:
        self._roles = {named.get(role, role): role for role in ROLES}
        self._schema = schema
        columns = () if schema is None else layout(schema, "fields")
        self._fields = {one.name: (one.field, one.field_type) for one in columns if one.field is not None}
        self._data_format = data_format
        self._due = due

    def made(self, lines: Iterable[bytes], shared: Mapping[str, Any]) -> Iterator[LoadRows]:
        """The rows of lines, some thousand at a time; empty lines are none. All of them have what is `shared`."""
        source = (line for line in lines if line.strip())
        while some := list(islice(source, BLOCK_ROWS)):
            yield self._made(some, shared)

    def _made(self, lines: list[bytes], shared: Mapping[str, Any]) -> LoadRows:
        rows: list[_Row] = []
        rejected: list[RefusedRow] = []
        for number, line in enumerate(lines):
            key = None
            try:
                given = {**shared, **_object(line)}
                key = given.get(next(name for name, role in self._roles.items() if role == "key"))
                rows.append(self._row(given))
            except Invalid as e:
                rejected.append(RefusedRow(number, key, str(e)))
        columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in _Row._fields]
        return LoadRows._make((*columns, rejected))

    def _row(self, given: dict[str, Any]) -> _Row:
        found: dict[str, Any] = {}
        fields: dict[str, Any] = {}
        for name, value in given.items():
            if value is None:
                continue  # J1
            if (role := self._roles.get(name)) is not None:
                found[role] = value
            elif self._schema is None:
                if name not in READ_ONLY:
                    fields[name] = real_of(value)
            elif name in self._fields:
                field, declared = self._fields[name]
                fields[field] = _field(value, declared)
            elif name not in READ_ONLY:
                raise Invalid(f"{name!r} is no field of the journal's schema")
        if "data" in found and fields and self._schema is None:
            raise Invalid(f"{next(iter(fields))!r} has no use: the data is given as a whole")
        date = _date(found.get("process_date"), "process_date")
        return _Row(
            _key(found.get("key"), found.get("key_bytes")),
            self._data(found["data"]) if "data" in found else pack_data(fields or None),
            found.get("priority", priorities.DEFAULT),
            self._due if date is None else date,
            _date(found.get("insertion_date"), "insertion_date"),
            _date(found.get("expiration"), "expiration") or 0,
            _text(found.get("owner", ""), "the owner"),
        )

    def _data(self, value: Any) -> bytes:
        if self._data_format == "msgpack":
            return _bytes(value, "the data")
        if isinstance(value, str):
            return pack_data(value if self._data_format == "value" else value_of(value))
        return pack_data(real_of(value))


class _Row(NamedTuple):
    key: Any
    data: bytes
    priority: Any
    process_date: int | None
    insertion_date: int | None
    expiration: int
    owner: Any


def _object(line: bytes) -> dict[str, Any]:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise Invalid(f"the line is no JSON: {e}") from e
    if not isinstance(given, dict):
        raise Invalid(f"the line is {type(given).__name__}, not an object: write {{…}}")
    return given


def _key(text: Any, raw: Any) -> Any:
    if text is not None and raw is not None:
        raise Invalid("key and key_bytes are both given: one of them must be null")
    return _text(text, "the key") if raw is None else _bytes(raw, "key_bytes")


def _text(value: Any, name: str) -> Any:
    """The same, unless it is a text that has no bytes: half of a surrogate pair. What else is wrong with it the journal says."""
    try:
        if isinstance(value, str):
            value.encode()
    except UnicodeEncodeError as e:
        raise Invalid(f"{name} is {value!r}, which is no text of Unicode: {e.reason}") from e
    return value


def _bytes(value: Any, name: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, binascii.Error, ValueError) as e:
        raise Invalid(f"{name} is no base64: {e}") from e


def _date(value: Any, name: str) -> int | None:
    if value is None or type(value) is int:
        return value
    try:
        return date_ms(datetime.fromisoformat(value), name)
    except (TypeError, ValueError) as e:
        raise Invalid(f"{name} is {value!r}: it must be milliseconds, or ISO 8601 with a time zone") from e


def _field(value: Any, declared: str | None) -> Any:
    if isinstance(value, str):
        if declared == "bytes":
            return _bytes(value, "a field of bytes")
        if declared == "date_ms":
            return _date(value, "a date")
        if declared in AS_JSON:
            return value_of(value)
    return real_of(value)
