"""How durable a call asked its record to be: on disk, with the operating system, or in our buffer."""

from __future__ import annotations

from typing import Any

from journal.errors import Invalid

FULL, OS, NONE = 2, 1, 0
LEVELS = {"full": FULL, "interval": OS, "none": NONE}


def level_named(durability: Any) -> int:
    """The level of its name."""
    level = LEVELS.get(durability) if type(durability) is str else None
    if level is None:
        raise Invalid(f"durability is {durability!r}: it must be one of {', '.join(LEVELS)}")
    return level
