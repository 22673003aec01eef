"""
Forms of data, and what a journal must do with them: the rules of schemas told a second time, with sets.

A form is a schema together with a producer that writes data for it. A producer may also write for another schema than the
one that is active: a part of that is accepted (fields that may be missing are missing), the rest must be refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from journal import Field, Schema


@dataclass(frozen=True)
class Form:
    """A schema as sets."""

    fields: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()
    defaults: dict[str, Any] = field(default_factory=dict)
    key: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema | None:
        """What is declared; a form without fields is no schema at all."""
        if not self.fields:
            return None
        declared = [
            Field(
                name,
                "text" if name in TEXTS else "int",
                required=name in self.required,
                default=self.defaults.get(name),
            )
            for name in self.fields
        ]
        return Schema(declared, key=self.key or None)

    def write(self, key: Any, number: int) -> tuple[Any, Any]:
        """Key and data as a producer of this form gives them."""
        if not self.fields:
            return key, number
        values = {"uri": key, "depth": number % 2, "n": number, "site": f"site {number}"}
        data = {name: values[name] for name in self.fields if name not in self.defaults or number % 3}
        return (None if self.key else key), data

    def stored(self, key: Any, data: Any) -> tuple[Any, Any] | None:
        """Key and data as they must be stored when this form's schema is active; None: they are refused."""
        if not self.fields:
            return None if key is None else (key, data)
        if not isinstance(data, dict) or not self.required <= data.keys() <= set(self.fields):
            return None
        if not all(isinstance(value, str if name in TEXTS else int) for name, value in data.items()):
            return None
        stored = {name: data.get(name, self.defaults.get(name)) for name in self.fields}
        stored = {name: value for name, value in stored.items() if name in data or name in self.defaults}
        if not self.key:
            return None if key is None else (key, stored)
        formed = _formed([stored[name] for name in self.key])
        return (formed, stored) if key in (None, formed) else None


TEXTS = frozenset({"uri", "site"})
PLAIN = Form()
BY_URI = Form(("uri", "n"), frozenset({"uri", "n"}), key=("uri",))
WIDER = Form(("uri", "n", "site"), frozenset({"uri"}), {"site": "nowhere"}, key=("uri",))
BY_DEPTH = Form(("depth", "uri", "n"), frozenset({"depth", "uri"}), key=("uri", "depth"))
LOOSE = Form(("n", "site"))
"""The caller gives the key, and nothing is required."""
FORMS = (PLAIN, BY_URI, WIDER, BY_DEPTH, LOOSE)


def _formed(parts: list[Any]) -> str:
    if len(parts) == 1:
        return str(parts[0])
    return ":".join(str(part).replace("\\", "\\\\").replace(":", "\\:") for part in parts)
