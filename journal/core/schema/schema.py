"""
A schema: the fields that the data of an entry has, and which of them form its key.

It is a value, independent of stores. As a map (for the catalog, and what TOML and XML are turned into first):

    {"v": 1, "name": text or nil, "key": [field, …] or nil,
     "fields": [{"name": text, "type": text, "required": bool, "default": value}, …]}        the last two may be missing

C1  `check(check(data)) == check(data)`: what it returns is what is stored, and may be put again.
C2  A field of the key is required.
C3  Two different sequences of key values never give one key: parts are escaped before they are joined.
C4  `union` is associative: the union of unions is the union of all, however they are grouped.
C5  Every way in gives a Schema or Invalid, whatever it is fed.

What is inside a list, a map or an `any` is not looked at here; what could not be stored is refused where the data is packed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from journal.core.entry.keys import UserKey, key_bytes
from journal.core.entry.rows import unpack_data
from journal.core.schema.field import NAME_CHARACTERS_MAX, check_name, declared_field, filling, refuse_others
from journal.core.schema.field import Field as Field
from journal.core.schema.types import KEY_TYPES, Check, check_of, joined, shown
from journal.errors import Invalid

VERSION = 1
FIELDS_MAX = 4096
_ABSENT: Any = object()


@dataclass(frozen=True, slots=True, init=False)
class Schema:
    """
    The fields of a journal's data.

    `fields` are Fields, pairs of a name and a type, or a map from names to types or to options (`{"type": …, "required": …,
    "default": …}`). `key` names the fields that form the user key; without it the caller gives the key.
    """

    fields: tuple[Field, ...]
    key: tuple[str, ...] | None
    name: str | None
    _plan: tuple[tuple[str, Check, bool, Callable[[], Any] | None], ...] = field(init=False, compare=False, repr=False)
    _key_plan: tuple[tuple[str, str, Check], ...] = field(init=False, compare=False, repr=False)

    def __init__(
        self,
        fields: Iterable[Field | tuple[str, Any]] | Mapping[str, Any],
        *,
        key: str | Sequence[str] | None = None,
        name: str | None = None,
    ) -> None:
        declared = _fields_of(fields)
        key = _key_of(key, declared)
        if name is not None:
            check_name(name, "a schema")
        for part in key or ():
            one = declared[part]
            if not one.required:  # C2; one with a default is refused here
                declared[part] = Field(one.name, one.type, required=True, default=one.default)
        checks = {one.name: check_of(one.type, one.name) for one in declared.values()}
        plan = tuple((one.name, checks[one.name], one.required, filling(one)) for one in declared.values())
        key_plan = tuple((part, declared[part].type, checks[part]) for part in key or ())
        values = (tuple(declared.values()), key, name, plan, key_plan)
        for attribute, value in zip(Schema.__slots__, values, strict=True):
            object.__setattr__(self, attribute, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return Schema.from_dict, (self.to_dict(),)

    def check(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """
        The data as it is stored: in the order of the schema, with types checked and defaults filled in.

        A field that is neither given nor has a default stays out. None is kept where the field is not required.
        """
        if not isinstance(data, dict):
            data = _map_of(data)
        stored: dict[str, Any] = {}
        found = 0
        for name, checked, is_required, fill in self._plan:
            value = data.get(name, _ABSENT)
            if value is _ABSENT:
                if is_required:
                    raise self._missing(name, data)
                if fill is not None:
                    stored[name] = fill()
            else:
                found += 1
                if value is not None:
                    stored[name] = checked(value)
                elif is_required:
                    raise Invalid(f"the field {name!r} is None, but it is required: give it a value")
                else:
                    stored[name] = None
        if found != len(data):
            raise self._unknown(data)
        return stored

    def key_of(self, data: Mapping[str, Any]) -> UserKey:
        """
        The user key of data.

        One field of type text or bytes is the key itself. Otherwise the parts are joined by colons: numbers as decimals, bool as
        true or false, bytes as hex digits, and in texts a colon or backslash has a backslash before it (C3).
        """
        if not self._key_plan:
            raise Invalid("the schema names no fields for the key: give the key, or declare the schema with key=")
        if not isinstance(data, dict):
            data = _map_of(data)
        values = [self._part(name, checked, data) for name, _, checked in self._key_plan]
        is_whole = len(values) == 1 and self._key_plan[0][1] in ("text", "bytes")
        key = values[0] if is_whole else ":".join(map(_spelled, values))
        try:
            key_bytes(key)
        except Invalid as e:
            raise Invalid(f"the key made of {_listed(self.key or ())}: {e}") from e
        return key

    @classmethod
    def union(cls, schemas: Iterable[Schema]) -> Schema:
        """
        What readers of several generations get, oldest first: every field, in the order of first appearance.

        A field has the narrowest type that holds all of its types, the default of the newest schema that has it, and is required
        where all schemas require it. The key stays if it is the same in all; the name is the newest one's.
        """
        generations = list(schemas)
        if not generations:
            raise Invalid("a union needs at least one schema")
        found: dict[str, list[Field]] = {}
        for schema in generations:
            for one in schema.fields:
                found.setdefault(one.name, []).append(one)
        fields = [_united(same, len(generations)) for same in found.values()]
        types = {one.name: one.type for one in fields}
        keys = {schema.key for schema in generations}
        key = keys.pop() if len(keys) == 1 else None
        if key is not None and not all(types[part] in KEY_TYPES for part in key):
            key = None
        return cls(fields, key=key, name=generations[-1].name)

    def to_dict(self) -> dict[str, Any]:
        """For the catalog: plain values that msgpack packs."""
        fields: list[dict[str, Any]] = []
        for one in self.fields:
            declared: dict[str, Any] = {"name": one.name, "type": one.type}
            if one.required:
                declared["required"] = True
            if (default := unpack_data(one.packed)) is not None:
                declared["default"] = default
            fields.append(declared)
        return {"v": VERSION, "name": self.name, "key": None if self.key is None else list(self.key), "fields": fields}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Schema:
        """The schema of a map that `to_dict` made."""
        if not isinstance(kept, Mapping):
            raise Invalid(f"a schema is kept as a map, not as {shown(kept)}")
        version = kept.get("v")
        if type(version) is not int or version != VERSION:
            raise Invalid(f"the schema has the version {shown(version)}: this release reads version {VERSION}")
        refuse_others(kept, ("v", "name", "key", "fields"), "a schema")
        fields = kept.get("fields")
        if not isinstance(fields, list | tuple):
            raise Invalid(f"the fields of a schema are a list of maps, not {shown(fields)}")
        declared = []
        for one in fields:
            if not isinstance(one, Mapping) or "name" not in one:
                raise Invalid(f"a field is a map with a name and a type, not {shown(one)}")
            declared.append(declared_field(one["name"], {option: one[option] for option in one if option != "name"}))
        return cls(declared, key=kept.get("key"), name=kept.get("name"))

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """The schema of a TOML text: `[schema]` with `key`, and a table `[schema.fields.<name>]` for each field."""
        from journal.core.schema.toml import read_toml  # most programs read none: a parser less to import

        return cls.from_dict(read_toml(text))

    @classmethod
    def from_xml(cls, text: str) -> Schema:
        """The schema of an XML table declaration: `<table><schema><column name= type= required=/>…`."""
        from journal.core.schema.xml import read_xml

        return cls.from_dict(read_xml(text))

    def _part(self, name: str, checked: Check, data: Mapping[str, Any]) -> Any:
        value = data.get(name)
        if value is None:
            raise Invalid(f"the field {name!r} is part of the key, and is not given: give it a value")
        return checked(value)

    def _missing(self, name: str, data: Mapping[Any, Any]) -> Invalid:
        # A field that is misspelled is missing and unknown: only the second helps.
        if not self._names().issuperset(data):
            return self._unknown(data)
        return Invalid(f"the field {name!r} is missing, but it is required: give it a value")

    def _unknown(self, data: Mapping[Any, Any]) -> Invalid:
        names = self._names()
        unknown = next(given for given in data if given not in names)
        if not isinstance(unknown, str):
            return Invalid(
                f"the data has the key {shown(unknown)}, which is {type(unknown).__name__}: keys must be text"
            )
        return Invalid(f"unknown field {shown(unknown)}{_nearest(unknown, [one.name for one in self.fields])}")

    def _names(self) -> set[str]:
        return {one.name for one in self.fields}


def _united(same: list[Field], generations: int) -> Field:
    kind = same[0].type
    for one in same[1:]:
        kind = joined(kind, one.type)
    is_required = len(same) == generations and all(one.required for one in same)
    return Field(same[0].name, kind, required=is_required, default=unpack_data(same[-1].packed))


def _fields_of(fields: Any) -> dict[str, Field]:
    if isinstance(fields, Mapping):
        fields = list(fields.items())
    if isinstance(fields, str | bytes) or not isinstance(fields, Iterable):
        raise Invalid(f"the fields of a schema are Fields, pairs or a map of names to types, not {shown(fields)}")
    declared: dict[str, Field] = {}
    for one in fields:
        if not isinstance(one, Field):
            if not isinstance(one, list | tuple) or len(one) != 2:
                raise Invalid(f"a field is a Field or a pair of a name and a type, not {shown(one)}")
            one = declared_field(*one)
        if one.name in declared:
            raise Invalid(f"the field {one.name!r} is declared twice: names must differ")
        declared[one.name] = one
    if not 0 < len(declared) <= FIELDS_MAX:
        raise Invalid(f"a schema has 1 to {FIELDS_MAX} fields, this one has {len(declared)}")
    return declared


def _key_of(key: Any, declared: dict[str, Field]) -> tuple[str, ...] | None:
    if key is None or key == () or key == []:
        return None
    parts = (key,) if isinstance(key, str) else key
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise Invalid(f"key is {shown(key)}: it must be the name of a field, a list of names, or None")
    for part in parts:
        if part not in declared:
            raise Invalid(f"the key names an unknown field {shown(part)}{_nearest(part, list(declared))}")
        if (kind := declared[part].type) not in KEY_TYPES:
            allowed = ", ".join(sorted(KEY_TYPES))
            raise Invalid(f"the field {part!r} has the type {kind}, which cannot be part of a key: {allowed} can")
    if len(set(parts)) != len(parts):
        raise Invalid(f"key is {shown(key)}: it names a field twice")
    return tuple(parts)


def _map_of(data: Any) -> dict[Any, Any]:
    if isinstance(data, Mapping):
        return dict(data)
    raise Invalid(f"the data is {shown(data)}, which is {type(data).__name__}: a journal with a schema takes a dict")


def _spelled(value: Any) -> str:
    if isinstance(value, str):
        return value.replace("\\", "\\\\").replace(":", "\\:")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _nearest(name: str, names: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name[:NAME_CHARACTERS_MAX], names, n=1)
    return f": did you mean {near[0]!r}?" if near else f": the fields are {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(names[:20]) + more
