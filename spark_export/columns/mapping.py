"""
Which column of a table is what of an entry: decided once, from the names and the types of the columns, before a row is read.

The columns are those that a reader gives (spark_export.columns.layout), so that what was exported can be loaded as it is; options name
others.

    key, key_bytes                                   the key, as text or as bytes; one of the two may be missing
    priority, process_date, insertion_date,          what their names say
    expiration, owner
    data                                             the whole data
    all others                                       fields of the data

M1  Every column has a use, or is one that only a reader gives (READ_ONLY), or is refused: a column that is silently left out is lost work.
M2  A type that cannot be taken is reported here, with the column, not by a task an hour later.
M3  It is a value: small, frozen and picklable, the same in every task.
M4  Beside fields, the data counts where it is not null (layout L1). Without a schema nothing says that the other columns are fields
    of it as well, so then a table has one or the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa
from pyarrow import types as kinds

from journal.core.schema.schema import Schema
from spark_export.columns.layout import AFTER, layout
from spark_export.errors import COLUMN_TYPE, COLUMN_UNKNOWN, invalid

ROLES = ("key", "key_bytes", "priority", "process_date", "insertion_date", "expiration", "owner", "data")
READ_ONLY = frozenset(AFTER) - frozenset(ROLES)
"""What a reader gives of an entry's present life; an entry that is loaded begins its own."""
DATA_FORMATS = ("auto", "value", "msgpack", "json")


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """A column that is a field of the data; its type is the one that the journal's schema declares, if there is one."""

    column: str
    field: str
    declared: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """The column of each role, or None, and the columns that are fields of the data."""

    key: str | None = None
    key_bytes: str | None = None
    priority: str | None = None
    process_date: str | None = None
    insertion_date: str | None = None
    expiration: str | None = None
    owner: str | None = None
    data: str | None = None
    data_format: str = "value"
    """How the data is written in its column: "json", "msgpack", or "value": it is what the column has."""
    fields: tuple[FieldColumn, ...] = ()


def columns_of(
    table: pa.Schema, named: Mapping[str, str], schema: Schema | None, data_format: str = "auto"
) -> ColumnMapping:
    """The use of each column of a table (M1, M2); `named` has the columns that options name for roles."""
    roles = _roles(table, named)
    others = [name for name in table.names if name not in roles.values() and name not in READ_ONLY]
    for role, name in roles.items():
        _check_role(role, name, table.field(name).type)
    fields = tuple(_declared(others, schema) if schema is not None else (FieldColumn(name, name) for name in others))
    if "data" not in roles:
        _check_required(fields, schema)
    elif others and schema is None:
        raise invalid(
            COLUMN_UNKNOWN,
            f"the columns {_listed(others)} have no use: the column {roles['data']!r} is the data. Drop them or it, or say in "
            "options what they are (key, priority, process_date, …)",
        )
    for one in fields:
        _check_value(one.column, table.field(one.column).type)
    is_key_formed = schema is not None and schema.key is not None
    if not (is_key_formed or "key" in roles or "key_bytes" in roles):
        raise invalid(
            COLUMN_UNKNOWN,
            f"there is no column 'key' among {_listed(table.names)}: name the one that is the key in the option 'key'",
        )
    found = _data_format(table, roles.get("data"), data_format)
    return ColumnMapping(**roles, data_format=found, fields=fields)


def _roles(table: pa.Schema, named: Mapping[str, str]) -> dict[str, str]:
    if len({name.lower() for name in table.names}) != len(table.names):
        raise invalid(COLUMN_UNKNOWN, f"two columns have one name: {_listed(table.names)}. Rename one of them")
    found: dict[str, str] = {}
    for role in ROLES:
        name = named.get(role, role)
        if name in table.names:
            found[role] = name
        elif role in named:
            near = get_close_matches(name, table.names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the columns are {_listed(table.names)}"
            raise invalid(COLUMN_UNKNOWN, f"there is no column {name!r} for the {role}: {hint}")
    if len(set(found.values())) != len(found):
        raise invalid(COLUMN_UNKNOWN, f"one column has two uses: {found}. Name another one in the options")
    return found


def _check_role(role: str, name: str, kind: pa.DataType) -> None:
    if role == "data":
        _check_value(name, kind)
        return
    if role in ("key", "key_bytes"):
        is_good, wanted = is_text(kind) or is_binary(kind), "string or binary"
    elif role == "owner":
        is_good, wanted = is_text(kind), "string"
    elif role == "priority":
        is_good, wanted = kinds.is_integer(kind), "an integer from 0 to 255"
    else:
        is_good = kinds.is_integer(kind) or (kinds.is_timestamp(kind) and kind.tz is not None)
        wanted = "timestamp, or a long of milliseconds since the epoch"
    if role == "key_bytes" and is_text(kind):
        is_good, wanted = False, "binary"
    if not (is_good or kinds.is_null(kind)):
        raise invalid(COLUMN_TYPE, f"the column {name!r} ({role}) is {kind}: it must be {wanted}. Cast it")


def _check_value(name: str, kind: pa.DataType) -> None:
    """Refuse what has no place in an entry's data, wherever it is nested."""
    for inner in _inner(kind):
        _check_value(name, inner)
    is_number = kinds.is_decimal(kind) and kind.scale <= 0
    if (kinds.is_decimal(kind) and not is_number) or kinds.is_duration(kind) or kinds.is_interval(kind):
        raise invalid(
            COLUMN_TYPE, f"the column {name!r} has {kind}, which is no type of data: cast it to double or string"
        )
    if kinds.is_timestamp(kind) and kind.tz is None:
        raise invalid(
            COLUMN_TYPE, f"the column {name!r} has {kind} without a time zone: cast it to timestamp, which has one"
        )


def _inner(kind: pa.DataType) -> list[pa.DataType]:
    if kinds.is_struct(kind):
        return [kind.field(index).type for index in range(kind.num_fields)]
    if kinds.is_map(kind):
        return [kind.key_type, kind.item_type]
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        return [kind.value_type]
    return []


def _declared(others: Sequence[str], schema: Schema) -> list[FieldColumn]:
    """The fields that columns stand for, by the names that a reader gives them (layout L2)."""
    known = {one.name: one for one in layout(schema, "fields") if one.field is not None}
    found = []
    for name in others:
        one = known.get(name)
        if one is None or one.field is None:
            near = get_close_matches(name, list(known), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the fields are {_listed(list(known))}"
            raise invalid(COLUMN_UNKNOWN, f"the column {name!r} is no field of the journal's schema: {hint}")
        found.append(FieldColumn(name, one.field, one.field_type))
    return found


def _check_required(fields: Sequence[FieldColumn], schema: Schema | None) -> None:
    given = {one.field for one in fields}
    missing = [] if schema is None else [one.name for one in schema.fields if one.required and one.name not in given]
    if missing:
        raise invalid(
            COLUMN_UNKNOWN, f"the journal's schema requires {_listed(missing)}, and there is no such column: add it"
        )


def _data_format(table: pa.Schema, name: str | None, asked: str) -> str:
    if name is None:
        if asked not in ("auto", "value"):
            raise invalid(COLUMN_UNKNOWN, f"data_format is {asked!r}, but there is no column for the data")
        return "value"
    kind = table.field(name).type
    if asked == "auto":
        return "json" if is_text(kind) else "msgpack" if is_binary(kind) else "value"
    if (asked == "msgpack" and not is_binary(kind)) or (asked == "json" and not is_text(kind)):
        wanted = "binary" if asked == "msgpack" else "string"
        raise invalid(COLUMN_TYPE, f"the column {name!r} is {kind}: data_format={asked!r} needs {wanted}")
    return asked


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are texts."""
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes."""
    return bool(kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(repr(name) for name in names[:20]) + more
