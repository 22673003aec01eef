"""The parameters of a command: its fields by name, how those that were sent are checked, and how they are read from a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from journal.core.quoting import shown
from journal.core.requests.types import Convert, FieldType, refuse
from journal.errors import Invalid


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a command."""

    name: str
    kind: FieldType
    is_required: bool = False
    default: Any = None
    """Of the request's field."""


class Parameters(dict[str, Parameter]):
    """The parameters of a command, by name. What each request is checked with is made once."""

    __slots__ = ("checks", "fields", "required")

    def __init__(self, parameters: Iterable[Parameter], fields: Mapping[str, Parameter] | None = None) -> None:
        super().__init__((parameter.name, parameter) for parameter in parameters)
        self.fields: Mapping[str, Parameter] = self if fields is None else fields
        """Those that the request has; others are of the wire alone."""
        self.checks = {name: (parameter.kind.check, parameter.is_required) for name, parameter in self.items()}
        self.required = tuple(name for name, parameter in self.items() if parameter.is_required)


def check_parameters(command: str, known: Parameters, given: Mapping[str, Any]) -> None:
    """Refuse parameters that a command does not have, or that are missing or not well-formed (types P1)."""
    checks = known.checks
    for name, value in given.items():
        if name not in checks:
            raise Invalid(f"{command} has no parameter {shown(name)}: it has {', '.join(known) or 'none'}")
        check, is_required = checks[name]
        if value is not None or is_required:
            check(name, value)
    for name in known.required:
        if name not in given:
            raise Invalid(f"{command} needs the parameter {name}: {known[name].kind.meaning}")


def read_parameters(command: str, known: Parameters, written: Mapping[str, str]) -> dict[str, Any]:
    """The values of a line's texts, checked."""
    read: dict[str, Any] = {}
    for name, value in written.items():
        parameter = known.get(name)
        if parameter is None:
            raise Invalid(f"{command} has no parameter {shown(name)}: it has {', '.join(known) or 'none'}")
        if parameter.kind.read is None:
            raise Invalid(f"{name} of {command} cannot be written in a line: use frames")
        read[name] = parameter.kind.read(name, value)
    check_parameters(command, known, read)
    return read


def one_of_group(name: str, fields: Parameters, to_wire: Convert, from_wire: Convert) -> FieldType:
    """One put, move or delete of a group: a map with the parameters of that command."""

    def check(parameter: str, value: Any) -> None:
        if type(value) is not dict:
            raise refuse(parameter, value, f"a list of maps with the parameters of {name.upper()}")
        check_parameters(parameter, fields, value)

    meaning = f"a map with the parameters of {name.upper()} except durability"
    return FieldType(name, meaning, check, to_wire=to_wire, from_wire=from_wire)
