"""
A schema written in TOML, turned into the map of journal/core/schema/schema.py.

    [schema]
    name = "pages"
    key = ["uri"]

    [schema.fields]
    uri = "text"                                     # a type alone

    [schema.fields.depth]                            # or a table
    type = "uint8"
    default = 0

M1  A table or an option that is not known is refused by name: a misspelled one would be ignored otherwise.
M2  TOML has no bytes: the default of a field of type bytes is written in hex digits. Dates with an offset are TOML's own.
"""

from __future__ import annotations

import tomllib
from typing import Any

from journal.core.schema.field import OPTIONS, refuse_others
from journal.core.schema.types import shown, type_name
from journal.errors import Invalid

CHARACTERS_MAX = 1 << 20
DOTS_MAX = 200
"""On one line. The parser's time for a key grows faster than the square of its parts: 1,000 take 20 ms, 50,000 take 55 s."""


def read_toml(text: str) -> dict[str, Any]:
    """The map of a TOML text; its types, names and defaults are not checked yet."""
    if type(text) is not str:
        raise Invalid(f"a TOML schema is read from a text, not from {shown(text)}")
    if len(text) > CHARACTERS_MAX:
        raise Invalid(f"the TOML schema has {len(text)} characters: at most {CHARACTERS_MAX} are read")
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > DOTS_MAX:
            raise Invalid(f"line {number} of the TOML schema has more than {DOTS_MAX} dots: break it")
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as e:
        raise Invalid(f"the schema is not TOML: {e}") from e
    refuse_others(document, ("schema",), "the document")
    schema = _table(document.get("schema"), "[schema]")
    refuse_others(schema, ("name", "key", "fields"), "[schema]")
    fields = _table(schema.get("fields"), "[schema.fields]")
    declared = [_field(name, given) for name, given in fields.items()]
    return {"v": 1, "name": schema.get("name"), "key": schema.get("key"), "fields": declared}


def _field(name: str, given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        return {"name": name, "type": given}
    table = _table(given, f"[schema.fields.{name}]")
    refuse_others(table, OPTIONS, f"[schema.fields.{name}]")
    if isinstance(table.get("default"), str) and isinstance(table.get("type"), str):
        table["default"] = _default(name, table["type"], table["default"])
    return {"name": name, **table}


def _default(name: str, kind: str, text: str) -> str | bytes:
    if type_name(kind) != "bytes":
        return text
    try:
        return bytes.fromhex(text)
    except ValueError as e:
        raise Invalid(f"the default of the field {name!r} (bytes) is {shown(text)}: write it in hex digits") from e


def _table(given: Any, what: str) -> dict[str, Any]:
    if given is None:
        raise Invalid(f"the table {what} is missing")
    if not isinstance(given, dict):
        raise Invalid(f"{what} is {shown(given)}: it must be a table")
    return given
