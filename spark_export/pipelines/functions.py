"""
Functions between the commit log and a sink: each takes a table of messages and returns one, of the same namespace and in the same order.

    pick, omit     {fields = […]}: only these fields of the data, or all but these
    rename         {fields = {old = "new"}}
    remap          {namespaces = {old = "new"}}: the namespace itself
    opfilter       {allow = […]} or {deny = […]}: what is allowed passes, what is denied does not
    skip           {field, op, match}: a message PASSES when the comparison holds; one without the field, or with null, does not
    pretty         {spaces = 2}: each message is logged as JSON, and passes
    cast           {fields = {name = "decimal(10,2)"}}: Arrow's names of types
    python         "module:function", or {call = "module:function", over = "batch", fields = {name = "type"}}

Fields are those of the top level. Names that a message lacks are passed over: a delete often has only its key.

F1  A function is a value that pickles: it runs on the driver and in tasks alike.
F2  A message that a function drops is acknowledged for its sink: ids are only ever left out, never changed, never reordered.
F3  A function that fails names itself and the first message that it fails for.
F4  Messages with op "command" pass untouched.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from journal.errors import Invalid
from spark_export.pipelines.message import COMMAND, DATA, ID, NAMESPACE, OP, OPS, Message, key_of, message_schema

log = logging.getLogger("journal.pipelines")


class FunctionFailed(Invalid):
    """A function could not process a message."""

    def __init__(self, text: str, message_id: int) -> None:
        super().__init__(text)
        self.message_id = message_id


@dataclass(frozen=True)
class Function:
    """One step; `apply` never sees commands (F4)."""

    word: ClassVar[str] = ""

    def apply(self, table: pa.Table) -> pa.Table:
        """The messages that pass, changed."""
        raise NotImplementedError

    def namespace(self, name: str) -> str:
        """What a namespace is called behind this function."""
        return name


@dataclass(frozen=True)
class Pick(Function):
    """Only some fields of the data."""

    word: ClassVar[str] = "pick"
    fields: tuple[str, ...]

    def apply(self, table: pa.Table) -> pa.Table:
        """Pick."""
        return _with_fields(table, {name: name for name in _names(table) if name in self.fields})


@dataclass(frozen=True)
class Omit(Function):
    """All fields but some."""

    word: ClassVar[str] = "omit"
    fields: tuple[str, ...]

    def apply(self, table: pa.Table) -> pa.Table:
        """Omit."""
        return _with_fields(table, {name: name for name in _names(table) if name not in self.fields})


@dataclass(frozen=True)
class Rename(Function):
    """Other names for fields."""

    word: ClassVar[str] = "rename"
    fields: Mapping[str, str]

    def apply(self, table: pa.Table) -> pa.Table:
        """Rename."""
        return _with_fields(table, {name: self.fields.get(name, name) for name in _names(table)})


@dataclass(frozen=True)
class Remap(Function):
    """Another name for a namespace."""

    word: ClassVar[str] = "remap"
    namespaces: Mapping[str, str]

    def namespace(self, name: str) -> str:
        """The new name; one that is not listed stays."""
        return self.namespaces.get(name, name)

    def apply(self, table: pa.Table) -> pa.Table:
        """Remap."""
        names = [self.namespace(name) for name in table.column(NAMESPACE).to_pylist()]
        return table.set_column(3, table.schema.field(NAMESPACE), pa.array(names, pa.string()))


@dataclass(frozen=True)
class OpFilter(Function):
    """Only some kinds of changes."""

    word: ClassVar[str] = "opfilter"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.allow) == bool(self.deny):
            raise Invalid("opfilter takes either allow or deny, a list of ops")
        for name in (*self.allow, *self.deny):
            if name not in OPS:
                raise Invalid(f"opfilter: {name!r} is no op: they are {', '.join(OPS)}")

    def apply(self, table: pa.Table) -> pa.Table:
        """Filter."""
        found = pc.is_in(table.column(OP), pa.array(self.allow or self.deny, pa.string()))
        return table.filter(found if self.allow else pc.invert(found))


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: bool(a == b),
    "=~": lambda a, b: re.search(b, a if isinstance(a, str) else str(a)) is not None,
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
}


@dataclass(frozen=True)
class Skip(Function):
    """What matches passes; all else is dropped."""

    word: ClassVar[str] = "skip"
    field: str
    op: str
    match: Any

    def __post_init__(self) -> None:
        if self.op not in _COMPARE:
            raise Invalid(f"skip: {self.op!r} is no comparison: they are {' '.join(_COMPARE)}")
        if self.op == "=~":
            try:
                re.compile(self.match)
            except (re.error, TypeError) as e:
                raise Invalid(f"skip: {self.match!r} is no regular expression: {e}") from e

    def apply(self, table: pa.Table) -> pa.Table:
        """Compare."""
        if self.field not in _names(table):
            return table.slice(0, 0)
        compare = _COMPARE[self.op]
        values = pc.struct_field(table.column(DATA), self.field).to_pylist()
        return table.filter(
            pa.array([value is not None and compare(value, self.match) for value in values], pa.bool_())
        )


@dataclass(frozen=True)
class Pretty(Function):
    """Each message is logged as JSON."""

    word: ClassVar[str] = "pretty"
    spaces: int = 2

    def apply(self, table: pa.Table) -> pa.Table:
        """Log."""
        for row in table.to_pylist():
            log.info(
                "pipeline_message %s", json.dumps(row, indent=self.spaces or None, default=str, ensure_ascii=False)
            )
        return table


@dataclass(frozen=True)
class Cast(Function):
    """Other types for fields; a value that does not fit is an error."""

    word: ClassVar[str] = "cast"
    fields: Mapping[str, str]

    def __post_init__(self) -> None:
        for text in self.fields.values():
            arrow_type(text)

    def apply(self, table: pa.Table) -> pa.Table:
        """Cast."""
        struct = table.column(DATA).combine_chunks()
        names = _names(table)
        arrays = [
            _cast(struct.field(name), arrow_type(self.fields[name])) if name in self.fields else struct.field(name)
            for name in names
        ]
        return _with_struct(table, pa.StructArray.from_arrays(arrays, names), key_of(table.schema))


@dataclass(frozen=True)
class Python(Function):
    """A function of the user's: over a message (a message, or None to drop it), or over a table of messages."""

    word: ClassVar[str] = "python"
    call: str
    over: str = "message"
    fields: Mapping[str, str] = field(default_factory=dict)
    """Fields that the function adds, or gives another type."""

    def __post_init__(self) -> None:
        if self.over not in ("message", "batch"):
            raise Invalid(f"python: over is {self.over!r}: it must be message or batch")
        self.function()

    def function(self) -> Callable[[Any], Any]:
        """The function itself."""
        module, colon, name = self.call.partition(":")
        try:
            found = getattr(import_module(module), name) if colon else None
        except (ImportError, AttributeError) as e:
            raise Invalid(f"python: {self.call!r} cannot be imported ({e}): write module:function") from e
        if not callable(found):
            raise Invalid(f"python: {self.call!r} is no function: write module:function")
        function: Callable[[Any], Any] = found
        return function

    def apply(self, table: pa.Table) -> pa.Table:
        """Call it."""
        call = self.function()
        if self.over == "batch":
            return call(table)
        kinds = {item.name: item.type for item in table.schema.field(DATA).type}
        kinds |= {name: arrow_type(text) for name, text in self.fields.items()}
        struct = pa.struct(list(kinds.items()))
        passed: list[bool] = []
        rows: list[dict[str, Any]] = []
        for row in table.to_pylist():
            result = call(Message(**row))
            passed.append(result is not None)
            if result is None:
                continue
            if result.namespace != row[NAMESPACE] or result.id != row[ID]:
                raise Invalid("it changed the message's id or namespace: use remap for namespaces")
            if unknown := set(result.data) - set(kinds):
                raise Invalid(
                    f"it returned the fields {sorted(unknown)}, whose types are not known: declare them with fields"
                )
            rows.append(result.data)
        kept = table.filter(pa.array(passed, pa.bool_()))
        return _with_struct(kept, pa.array(rows, struct), key_of(table.schema))


FUNCTIONS: dict[str, type[Function]] = {
    kind.word: kind for kind in (Pick, Omit, Rename, Remap, OpFilter, Skip, Pretty, Cast, Python)
}
_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(), "binary": pa.binary(), "bool": pa.bool_(), "int16": pa.int16(), "int32": pa.int32(),
    "int64": pa.int64(), "float": pa.float32(), "double": pa.float64(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}  # fmt: skip


def arrow_type(text: str) -> pa.DataType:
    """A type by its name."""
    if found := re.fullmatch(r"decimal\(([0-9]+),\s*([0-9]+)\)", text):
        return pa.decimal128(int(found[1]), int(found[2]))
    if found := re.fullmatch(r"list\((.+)\)", text):
        return pa.list_(arrow_type(found[1]))
    if text not in _TYPES:
        raise Invalid(f"{text!r} is no type: they are {', '.join(_TYPES)}, decimal(p,s) and list(type)")
    return _TYPES[text]


def function_of(declared: Mapping[str, Any]) -> Function:
    """A function as a declaration has it: a table with one word."""
    if len(declared) != 1:
        raise Invalid(
            f"a function is a table with one word, such as {{omit = {{fields = ['uid']}}}}; this has {list(declared)}"
        )
    ((word, given),) = declared.items()
    kind = FUNCTIONS.get(word)
    if kind is None:
        raise Invalid(f"there is no function {word!r}: they are {', '.join(FUNCTIONS)}")
    if isinstance(given, str) and kind is Python:
        given = {"call": given}
    if not isinstance(given, Mapping):
        raise Invalid(f"{word} takes a table, such as {{{word} = {{fields = […]}}}}; this is {given!r}")
    try:
        return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})
    except TypeError as e:
        names = ", ".join(one.name for one in fields(kind))
        raise Invalid(f"{word} takes {names}; it was given {', '.join(given) or 'nothing'}") from e


def applied(functions: Sequence[Function], table: pa.Table) -> pa.Table:
    """A table of one namespace behind all functions, in their order (F2, F3, F4)."""
    for number, function in enumerate(functions, 1):
        if not table.num_rows:
            return table
        if table.column(OP)[0].as_py() == COMMAND:
            return table
        try:
            table = function.apply(table)
        except Exception as e:
            raise _named(function, number, table, e) from e
    return table


def _named(function: Function, number: int, table: pa.Table, error: Exception) -> FunctionFailed:
    """The failure with the first message that it happens for."""
    for index in range(table.num_rows):
        try:
            function.apply(table.slice(index, 1))
        except Exception as e:  # noqa: BLE001 - what a user's function raises is what is reported
            row = table.slice(index, 1).to_pylist()[0]
            text = (
                f"function {number} ({function.word}) failed for message {row[ID]} ({row[OP]} in {row[NAMESPACE]}): {e}"
            )
            return FunctionFailed(text, row[ID])
    first = table.column(ID)[0].as_py()
    text = f"function {number} ({function.word}) failed for the messages {first} to {first + table.num_rows - 1}, for none alone: {error}"
    return FunctionFailed(text, first)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Arrow asks for room for every integer of a type before it makes decimals of some; here the values themselves must fit."""
    if pa.types.is_integer(array.type) and pa.types.is_decimal(kind):
        array = pc.cast(array, pa.decimal128(38, kind.scale))
    return pc.cast(array, kind)


def _names(table: pa.Table) -> list[str]:
    return [item.name for item in table.schema.field(DATA).type]


def _with_fields(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    struct = table.column(DATA).combine_chunks()
    key = key_of(table.schema)
    if names:
        made = pa.StructArray.from_arrays([struct.field(old) for old in names], list(names.values()))
    else:
        made = pa.array([{}] * table.num_rows, pa.struct([]))
    kept = tuple(names[name] for name in key if name in names)
    return _with_struct(table, made, kept if len(kept) == len(key) else ())


def _with_struct(table: pa.Table, struct: pa.Array, key: Sequence[str]) -> pa.Table:
    arrays = [*(table.column(name) for name in table.column_names[:-1]), struct]
    return pa.table(arrays, schema=message_schema(struct.type, key))
