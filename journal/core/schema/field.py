"""
A field of a schema: its name, its type, whether it must be given, and what stands in its place otherwise.

F1  A required field has no default: it could never apply.
F2  A default is kept packed: it is immutable, and each entry gets its own copy.
F3  A default passes the check of its field's type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from journal.core.entry.rows import pack_data, unpack_data
from journal.core.schema.types import check_of, shown, type_name
from journal.errors import Invalid

NAME_CHARACTERS_MAX = 255
OPTIONS = ("type", "required", "default")


@dataclass(frozen=True, slots=True, init=False)
class Field:
    """One field: a name, a type, and what holds when it is not given."""

    name: str
    type: str
    required: bool
    default: Any = field(compare=False)
    """As it was declared; None: there is none. A copy: changing it changes nothing."""
    packed: bytes = field(init=False, repr=False)
    """The default as bytes (F2). Compared in its place: 1, 1.0 and True are three defaults, and NaN is one."""

    def __init__(self, name: str, type: Any, *, required: bool = False, default: Any = None) -> None:  # noqa: A002
        check_name(name, "a field")
        if required is not True and required is not False:
            raise Invalid(f"required of the field {name!r} is {shown(required)}: it must be True or False")
        try:
            kind = type_name(type)
        except Invalid as e:
            raise Invalid(f"the field {name!r}: {e}") from e
        if required and default is not None:
            raise Invalid(f"the field {name!r} is required and has a default, which could never apply: leave out one")
        packed = _pack_default(name, kind, default)
        for attribute, value in zip(Field.__slots__, (name, kind, required, unpack_data(packed), packed), strict=True):
            object.__setattr__(self, attribute, value)


def _pack_default(name: str, kind: str, default: Any) -> bytes:
    if default is None:
        return pack_data(None)
    checked = check_of(kind, name)(default)
    # An int of a float field stays one until it is filled in. A union may give the field a type that keeps
    # ints apart, and must find the same default there however the union was grouped.
    is_kept = kind == "float" and isinstance(default, int)
    try:
        return pack_data(int(default) if is_kept else checked)
    except Invalid as e:
        raise Invalid(f"the default of the field {name!r}: {e}") from e


def filling(one: Field) -> Callable[[], Any] | None:
    """What makes the value of a field that is not given; None: it stays out."""
    if one.default is None:
        return None
    if isinstance(one.default, list | dict):
        return lambda: unpack_data(one.packed)  # F2
    value = check_of(one.type, one.name)(one.default)
    return lambda: value


def declared_field(name: Any, given: Any) -> Field:
    """The field of a name and what is declared under it: a type, a map of options, or a Field."""
    if isinstance(given, Field):
        if given.name != name:
            raise Invalid(f"the field {given.name!r} is declared under the name {shown(name)}: the names must agree")
        return given
    if not isinstance(given, Mapping):
        return Field(name, given)
    check_name(name, "a field")
    refuse_others(given, OPTIONS, f"the field {name!r}")
    if "type" not in given:
        raise Invalid(f"the field {name!r} has no type")
    return Field(name, given["type"], required=given.get("required", False), default=given.get("default"))


def check_name(name: Any, what: str) -> None:
    """Refuses what cannot be the name of a field or a schema."""
    if type(name) is not str or not 0 < len(name) <= NAME_CHARACTERS_MAX or not name.isprintable():
        raise Invalid(
            f"{shown(name)} is not the name of {what}: it must be a text of 1 to {NAME_CHARACTERS_MAX} printable characters"
        )


def refuse_others(given: Mapping[Any, Any], known: tuple[str, ...], what: str) -> None:
    """Refuses options that are not known, by name."""
    for option in given:
        if option not in known:
            raise Invalid(f"{what} has an unknown option {shown(option)}: the options are {', '.join(known)}")
