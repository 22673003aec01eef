"""
A schema written as an XML table declaration, turned into the map of journal/core/schema/schema.py.

    <table name="pages" model="journal" row-key="site, uri">
      <description>…</description>
      <schema>
        <column name="site" type="string" required="true"/>
        <column name="uri" type="string" required="true"><description>…</description></column>
        <column name="depth" type="uint8"><default>0</default></column>
      </schema>
    </table>

X1  Nothing but this text is read. A document type, an entity, an external reference or a processing instruction is refused,
    so nothing can grow while it is parsed.
X2  CHILDREN and ATTRIBUTES are all that may appear, which also bounds the depth. Anything else is refused with its name and line.
X3  A default is text: a number, true or false, hex digits for bytes, milliseconds or a date with an offset for date_ms,
    JSON for list, map and any.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, NoReturn
from xml.parsers import expat

from journal.core.schema.types import INTEGERS, shown, type_name
from journal.errors import Invalid

BYTES_MAX = 1 << 20
CHILDREN: dict[str, tuple[str, ...]] = {
    "": ("table",),
    "table": ("description", "schema"),
    "schema": ("column",),
    "column": ("description", "default"),
    "description": (),
    "default": (),
}
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "table": ("name", "model", "row-key"),
    "schema": (),
    "column": ("name", "type", "required", "default"),
    "description": (),
    "default": (),
}
REPEATED = frozenset({"column"})
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|INF)|nan|NaN")


def read_xml(text: str) -> dict[str, Any]:
    """The map of a table declaration."""
    if type(text) is not str:
        raise Invalid(f"an XML schema is read from a text, not from {shown(text)}")
    try:
        raw = text[: BYTES_MAX + 1].encode()
    except UnicodeEncodeError as e:
        raise Invalid(f"the schema is not XML: it has a lone surrogate at character {e.start}") from e
    if len(raw) > BYTES_MAX:
        raise Invalid(f"the XML schema is too large: at most {BYTES_MAX} bytes are read")
    return _Declaration().read(raw)


class _Declaration:
    """One parse: expat tells what comes, and the declaration grows."""

    def __init__(self) -> None:
        # The text is decoded already; whatever encoding it names is overridden.
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._refusal("a document type (DOCTYPE)")
        parser.EntityDeclHandler = self._refusal("an entity declaration")
        parser.UnparsedEntityDeclHandler = self._refusal("an entity declaration")
        parser.ExternalEntityRefHandler = self._refusal("an external reference")
        parser.SkippedEntityHandler = self._refusal("a reference to an entity")
        parser.ProcessingInstructionHandler = self._refusal("a processing instruction")
        self._parser = parser
        self._path: list[str] = [""]
        self._seen: list[set[str]] = [set()]
        self._text: list[str] = []
        self._table: dict[str, str] = {}
        self._column: dict[str, str] = {}
        self._fields: list[dict[str, Any]] = []

    def read(self, raw: bytes) -> dict[str, Any]:
        try:
            self._parser.Parse(raw, True)
        except expat.ExpatError as e:
            raise Invalid(f"the schema is not XML: {e}") from e
        return {"v": 1, "name": self._table.get("name"), "key": self._key(), "fields": self._fields}

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        parent = self._path[-1]
        if tag not in CHILDREN[parent]:
            place = f"inside <{parent}>" if parent else "as the root"
            allowed = ", ".join(f"<{child}>" for child in CHILDREN[parent]) or "text only"
            self._refuse(f"the element <{tag[:100]}> {place} is not known: allowed is {allowed}")
        for name in attributes:
            if name not in ATTRIBUTES[tag]:
                allowed = ", ".join(ATTRIBUTES[tag]) or "none"
                self._refuse(f"the attribute {shown(name)} of <{tag}> is not known: allowed is {allowed}")
        if tag in self._seen[-1] and tag not in REPEATED:
            self._refuse(f"<{tag}> comes twice: once is allowed")
        self._seen[-1].add(tag)
        self._path.append(tag)
        self._seen.append(set())
        self._text.clear()
        if tag == "table":
            self._table = attributes
            self._check_model()
        elif tag == "column":
            self._column = attributes

    def _end(self, tag: str) -> None:
        self._path.pop()
        seen = self._seen.pop()
        if tag == "default":
            if "default" in self._column:
                self._refuse("the column has a default as an attribute and as an element: leave out one")
            self._column["default"] = "".join(self._text)
        elif tag == "column":
            self._fields.append(self._field())
        elif tag == "table" and "schema" not in seen:
            self._refuse("<table> has no <schema>")

    def _characters(self, text: str) -> None:
        if self._path[-1] in ("default", "description"):
            self._text.append(text)
        elif not text.isspace():
            self._refuse(f"the text {shown(text.strip())} inside <{self._path[-1]}>: allowed are elements only")

    def _check_model(self) -> None:
        model = self._table.get("model")
        if model is not None and model.lower() != "journal":
            self._refuse(f"the model is {shown(model)}: it must be journal, or left out")

    def _key(self) -> list[str] | None:
        given = self._table.get("row-key")
        if given is None:
            return None
        names = given.replace(",", " ").split()
        if not names:
            raise Invalid("row-key names no column: name those that form the key, or leave it out")
        return names

    def _field(self) -> dict[str, Any]:
        column = self._column
        for name in ("name", "type"):
            if name not in column:
                self._refuse(f"<column> has no attribute {name}")
        required = column.get("required", "false")
        if required not in _BOOLEANS:
            self._refuse(
                f"required of the column {shown(column['name'])} is {shown(required)}: it must be true or false"
            )
        try:
            kind = type_name(column["type"])
        except Invalid as e:
            self._refuse(f"the column {shown(column['name'])}: {e}")
        field: dict[str, Any] = {"name": column["name"], "type": kind, "required": _BOOLEANS[required]}
        if "default" in column:
            try:
                field["default"] = default_of(column["default"], kind)
            except (ValueError, OverflowError, RecursionError) as e:
                found = shown(column["default"])
                self._refuse(
                    f"the default {found} of the column {shown(column['name'])} is not of the type {kind}: {e}"
                )
        return field

    def _refusal(self, what: str) -> Callable[..., NoReturn]:
        def refuse(*_: object) -> NoReturn:
            self._refuse(f"{what} is not allowed in a table declaration: remove it")

        return refuse

    def _refuse(self, reason: str) -> NoReturn:
        raise Invalid(f"line {self._parser.CurrentLineNumber} of the XML schema: {reason}")


def default_of(text: str, kind: str) -> Any:
    """The value of a default that is written as text; a ValueError says why it is none (X3)."""
    if kind == "text":
        return text
    text = text.strip()
    if kind == "bytes":
        return bytes.fromhex(text)
    if kind == "bool":
        if text not in _BOOLEANS:
            raise ValueError("write true or false")
        return _BOOLEANS[text]
    if kind == "float":
        if _FLOAT.fullmatch(text) is None:
            raise ValueError("write a decimal number")
        return float(text)
    if kind in INTEGERS or (kind == "date_ms" and _INTEGER.fullmatch(text)):
        if _INTEGER.fullmatch(text) is None:
            raise ValueError("write decimal digits")
        return int(text)
    if kind == "date_ms":
        return datetime.fromisoformat(text)
    return json.loads(text)
