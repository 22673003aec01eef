"""What the catalog has of a generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class GenerationRecord(NamedTuple):
    """What the catalog has of a generation."""

    order: int
    began: int
    last: int | None
    """The offset of its last change; None while it is active."""
    has_rows: bool
    has_log: bool
    schema: dict[str, Any] | None = None
    """Of the data that was put while it was active."""
    older: Sequence[dict[str, Any]] = ()
    """Schemas of data that moved to it from generations before it, oldest first."""
