"""The verbs of who keeps a store, as calls. What they do says journal.Store; see journal.client.call."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from journal.client.call import Call, call
from journal.core.schema import Schema
from journal.core.settings import Settings, from_map
from journal.core.times import duration_ms


def settings(journal: str) -> Call[Settings]:
    """How a journal behaves."""
    return call("SETTINGS", journal, from_map)


def declare(journal: str, settings: dict[str, Any]) -> Call[Settings]:
    """Open a journal, or declare it."""
    return call("DECLARE", journal, from_map, settings=_plain(settings))


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as they can be sent."""
    return {name: _value(name, value) for name, value in settings.items()}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, Schema):
        return value.to_dict()
    return duration_ms(value, name) if isinstance(value, timedelta) else value
