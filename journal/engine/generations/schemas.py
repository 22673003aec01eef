"""The schemas that the data of generations may have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from journal.core.settings import Settings
from journal.engine.log.generation_record import GenerationRecord


def schemas_of(kept: Sequence[GenerationRecord]) -> list[dict[str, Any]]:
    """The schemas that the data of these generations may have, oldest first; one that comes twice only where it is newest."""
    found: list[dict[str, Any]] = []
    for each in (schema for k in reversed(kept) for schema in (k.schema, *reversed(k.older))):
        if each is not None and each not in found:
            found.append(each)
    return found[::-1]


def declared(settings: Settings) -> dict[str, Any] | None:
    """The schema that a new generation has."""
    return None if settings.schema is None else settings.schema.to_dict()
