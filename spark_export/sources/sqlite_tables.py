"""
Tables of SQLite: their columns, types and keys, their values as Arrow, and the triggers that note their changes.

SQLite declares a type for a column and stores what it is given, so each value is held against the column's type here.

    declared                              column of the data
    …INT…                                 int64
    …CHAR…, …CLOB…, …TEXT…                string
    …REAL…, …FLOA…, …DOUB…                float64
    BOOL…                                 bool (0 and 1)
    DECIMAL(p,s), NUMERIC(p,s)            decimal
    …DATE…, …TIME…                        string: SQLite has no dates, and programs store them as text
    other numeric ones                    float64
    …BLOB…, none                          binary

    _journal_changes   seq       its place, which only grows
                       at        when, ms since the epoch
                       name      the table
                       op        insert, update, delete
                       columns   its columns at that time, with their types, as JSON
                       c0, c1, … the values of the row, of a delete those before it

T1  A value that does not fit its column's type is an error that names the table, the row and the column; nothing is rounded.
T2  A change has the row as it was written then, whatever became of it later. A change of the key is a delete and an insert.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from spark_export.errors import COLUMN_TYPE, OPTION_INVALID, invalid

CHANGES = "_journal_changes"
NOW_MS = "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"
TYPES: dict[str, pa.DataType] = {
    "int64": pa.int64(), "float64": pa.float64(), "string": pa.string(), "binary": pa.binary(), "bool": pa.bool_(),
}  # fmt: skip
_PYTHON: dict[str, set[type]] = {
    "int64": {int}, "float64": {float, int}, "string": {str}, "binary": {bytes}, "bool": {int}, "decimal": {int, float, str},
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")
_DIGITS_MAX = 38


class SqliteTable(NamedTuple):
    """A table: its columns with the names of their types, and its primary key."""

    name: str
    columns: dict[str, str]
    key: tuple[str, ...]

    @property
    def layout(self) -> str:
        """Its columns, as its changes have them."""
        return json.dumps(self.columns)


def quoted(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def table_names(connection: sqlite3.Connection) -> list[str]:
    """The tables of users."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [name for (name,) in found if not name.startswith(("sqlite_", "_journal_"))]


def table_of_name(connection: sqlite3.Connection, name: str, types: Mapping[str, str]) -> SqliteTable:
    """A table as it is now; `types` has those that were asked for, under "table.column"."""
    found = connection.execute(f"PRAGMA table_xinfo({quoted(name)})").fetchall()
    rows = [row for row in found if row[6] != 1]  # 1: the hidden columns of virtual tables
    columns = {row[1]: types.get(f"{name}.{row[1]}") or type_name(row[2]) for row in rows}
    key = [row[1] for row in sorted(rows, key=lambda row: int(row[5])) if row[5]]
    return SqliteTable(name, columns, tuple(key))


def type_name(declared: str) -> str:
    """The type of a column, from what was declared."""
    word = declared.upper()
    if "INT" in word:
        return "int64"
    if any(part in word for part in ("CHAR", "CLOB", "TEXT", "DATE", "TIME")):
        return "string"
    if not word or "BLOB" in word:
        return "binary"
    if word.startswith("BOOL"):
        return "bool"
    digits = re.search(r"(?:DECIMAL|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", word)
    if digits and 0 < int(digits[1]) <= _DIGITS_MAX and int(digits[2] or 0) <= int(digits[1]):
        return f"decimal({digits[1]},{digits[2] or 0})"
    return "float64"


def arrow_type(name: str) -> pa.DataType:
    """The type of Arrow with this name."""
    if name in TYPES:
        return TYPES[name]
    digits = _DECIMAL.fullmatch(name)
    if digits is None or not 0 < int(digits[1]) <= _DIGITS_MAX or int(digits[2]) > int(digits[1]):
        raise invalid(OPTION_INVALID, f"unknown type {name!r} of a column: there are {', '.join(TYPES)}, decimal(p,s)")
    return pa.decimal128(int(digits[1]), int(digits[2]))


def arrays_of(
    table: str, columns: Mapping[str, str], rows: Sequence[Sequence[Any]], places: Sequence[str]
) -> list[pa.Array]:
    """The values of rows, column by column (T1); `places` names each row in errors."""
    made = []
    for (name, kind), values in zip(columns.items(), zip(*rows, strict=True), strict=True):
        try:
            made.append(_array(values, kind))
        except (TypeError, ValueError, ArithmeticError, pa.ArrowException):
            _refuse(table, name, kind, values, places)
            raise
    return made


def _array(values: Sequence[Any], kind: str) -> pa.Array:
    if wrong := set(map(type, values)) - _PYTHON[kind.partition("(")[0]] - {type(None)}:
        raise TypeError(f"values of {wrong}")
    if kind == "bool":
        return pa.array([None if value is None else _bit(value) for value in values], pa.bool_())
    if kind.startswith("decimal"):
        # repr has the fewest digits that make the same number: those that were written.
        return pa.array(
            [None if v is None else Decimal(v if isinstance(v, str) else repr(v)) for v in values], arrow_type(kind)
        )
    return pa.array(values, arrow_type(kind))


def _bit(value: int) -> bool:
    if value not in (0, 1):
        raise ValueError("neither 0 nor 1")
    return value == 1


def _refuse(table: str, column: str, kind: str, values: Sequence[Any], places: Sequence[str]) -> None:
    """Name the first value that does not fit."""
    for value, place in zip(values, places, strict=True):
        try:
            _array([value], kind)
        except (TypeError, ValueError, ArithmeticError, pa.ArrowException) as e:
            shown = repr(value)
            raise invalid(
                COLUMN_TYPE,
                f"the table {table!r} has at {place}, column {column!r}, {shown[:60]} ({type(value).__name__}), which is no {kind}: "
                f"correct the row, or name a type that holds all values of the column, as in types = {{'{table}.{column}' = 'string'}}",
            ) from e


def changes_ddl(width: int, has: Sequence[str]) -> list[str]:
    """What makes the table of changes wide enough; `has` has its columns, none when it is not there."""
    if not has:
        values = "".join(f", c{n}" for n in range(width))
        made = (
            f"CREATE TABLE {CHANGES} (seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, name TEXT NOT NULL, "
            f"op TEXT NOT NULL, columns TEXT NOT NULL{values})"
        )
        return [made]
    return [f"ALTER TABLE {CHANGES} ADD COLUMN c{n}" for n in range(width) if f"c{n}" not in has]


def trigger_names(name: str) -> dict[str, str]:
    """The triggers of a table, by what they note."""
    return {op: f"_journal_{name}_{op}" for op in ("insert", "update", "delete")}


def triggers_of(table: SqliteTable) -> dict[str, str]:
    """The triggers of a table, by name (T2)."""
    names = trigger_names(table.name)
    moved = " OR ".join(f"OLD.{quoted(k)} IS NOT NEW.{quoted(k)}" for k in table.key)
    bodies = {
        "insert": [_noted(table, "'insert'", "NEW")],
        "update": [
            _noted(table, "'delete'", "OLD", f" WHERE {moved}"),
            _noted(table, f"CASE WHEN {moved} THEN 'insert' ELSE 'update' END", "NEW"),
        ],
        "delete": [_noted(table, "'delete'", "OLD")],
    }
    return {
        names[
            op
        ]: f"CREATE TRIGGER {quoted(names[op])} AFTER {op.upper()} ON {quoted(table.name)} BEGIN {' '.join(body)} END"
        for op, body in bodies.items()
    }


def _noted(table: SqliteTable, op: str, row: str, where: str = "") -> str:
    columns = "".join(f", c{n}" for n in range(len(table.columns)))
    values = "".join(f", {row}.{quoted(name)}" for name in table.columns)
    return (
        f"INSERT INTO {CHANGES} (at, name, op, columns{columns}) "
        f"SELECT {NOW_MS}, {literal(table.name)}, {op}, {literal(table.layout)}{values}{where};"
    )
