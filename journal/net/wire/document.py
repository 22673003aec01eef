"""
The parts of docs/PROTOCOL.md that are made from the tables: commands, values, frames' kinds, errors, limits.

A test compares them with what stands between the marks in the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields

from journal.core.requests import types
from journal.core.requests.parameters import Parameter
from journal.core.requests.registry import CONTROL, GROUPS, NOT_COMMANDS, STORE_NOT_COMMANDS
from journal.core.requests.request import Command, Role
from journal.core.requests.types import FieldType
from journal.net.wire.error_codes import CODES, FIELDS, INTERNAL
from journal.net.wire.limits import DEFAULT
from journal.net.wire.values import COLUMNS

_MARKED = re.compile(r"(<!-- made: (?P<part>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def commands() -> str:
    """A table for each group of commands."""
    parts = [_commands("For the daemon itself", CONTROL, is_control=True)]
    parts += [_commands(title, rows, is_control=False) for title, rows in GROUPS.items()]
    return "\n".join(parts)


def _commands(title: str, rows: Iterable[Command], *, is_control: bool) -> str:
    lines = [f"### {title}", "", "| command | parameters | reply | role | retry | |", "|---|---|---|---|---|---|"]
    for row in rows:
        reply = f"`{row.reply}`"
        if is_control:
            reply += "; as a line " + ", ".join(row.answers)
        given = ", ".join(map(_parameter, row.parameters.values()))
        lines.append(f"| `{row.name}` | {given or '–'} | {reply} | {_roles(row)} | {row.retry} | {row.summary} |")
    return "\n".join([*lines, ""])


def _parameter(parameter: Parameter) -> str:
    name, kind = parameter.name, parameter.kind.name
    return (f"**{name}**" if parameter.is_required else name) + ("" if kind == name else f" *{kind}*")


def _roles(row: Command) -> str:
    if not row.roles:
        return "–"
    return "any" if row.roles == frozenset(Role) else ", ".join(sorted(row.roles))


def absent() -> str:
    """What of the library is no command."""
    lines = ["| of the library | over the wire |", "|---|---|"]
    for kind, left_out in (("Journal", NOT_COMMANDS), ("Store", STORE_NOT_COMMANDS)):
        lines += [f"| `{kind}.{name}` | {reason} |" for name, reason in left_out.items()]
    return "\n".join([*lines, ""])


def kinds() -> str:
    """The types of parameters."""
    found = {kind.name: kind for kind in vars(types).values() if isinstance(kind, FieldType)}
    lines = ["| type | what it is |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {kind.meaning} |" for name, kind in sorted(found.items())), ""])


def values() -> str:
    """What replies and pushes hold."""
    lines = ["| value | columns |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {', '.join(columns)} |" for name, columns in COLUMNS.items()), ""])


def errors() -> str:
    """Every error code."""
    lines = ["| code | error | fields | meaning |", "|---|---|---|---|"]
    for code, kind in CODES.items():
        meaning = (kind.__doc__ or "").strip().splitlines()[0]
        lines.append(f"| `{code}` | {kind.__name__} | {', '.join(FIELDS.get(code, ())) or '–'} | {meaning} |")
    lines.append(
        f"| `{INTERNAL}` | RemoteError | – | The daemon failed in a way that it does not explain; its log does. |"
    )
    return "\n".join([*lines, ""])


def limits() -> str:
    """The limits and their defaults."""
    lines = ["| limit | default |", "|---|---|"]
    return "\n".join([*lines, *(f"| {f.name} | {getattr(DEFAULT, f.name):,} |" for f in fields(DEFAULT)), ""])


PARTS = {
    "commands": commands,
    "absent": absent,
    "kinds": kinds,
    "values": values,
    "errors": errors,
    "limits": limits,
}


def filled(text: str) -> str:
    """The document with its made parts as they are now."""
    return _MARKED.sub(lambda match: f"{match[1]}{PARTS[match['part']]()}{match[3]}", text)
