"""
The settings of a journal: one frozen object, kept in the catalog.

S1  Settings that shape what is on disk (FIXED) are given when the journal is declared and never change.
S2  All others may be changed by opening the journal with other values; what is not given stays as it was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Any

from journal.core import limits
from journal.core.buckets import BUCKETS_DEFAULT, check_buckets
from journal.core.entry.merge import PRESETS
from journal.core.periods import PERIODS
from journal.core.schema.schema import Schema
from journal.core.times import duration_ms
from journal.errors import Invalid

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
RESERVED = frozenset({"lock", "catalog", "socket"})
MERGED = "_merged"
"""The name of what all merged journals of a store share; no journal can have it."""
FIXED = frozenset({"buckets", "merged", "timeline"})
SHARED = frozenset({
    "segment_bytes_max", "rotate", "rotate_bytes", "generations_max", "on_empty", "wipe", "log_age_max", "log_bytes_max",
    "compact",
})  # fmt: skip
"""Settings of the files; merged journals have these together."""
ON_EMPTY = ("delete", "reset", "truncate")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How a journal behaves. Times are milliseconds."""

    processing_timeout: int = 3_600_000
    timeouts_max: int = 5
    postpone_max: int | None = None
    merge: str = "merge"
    slow_from: int = 200
    entry_bytes_max: int = limits.ENTRY_BYTES_MAX_DEFAULT
    segment_bytes_max: int = limits.SEGMENT_BYTES_DEFAULT
    rotate: str | None = None
    """A new generation begins each "1h", "1d" or "1mo" (wall-clock time, UTC); None: by size or by hand only."""
    rotate_bytes: int | None = None
    """A new generation begins when the rows that were put in the active one take so many bytes; survivors do not count."""
    generations_max: int = 8
    """When more generations than this have rows, the survivors of the oldest move to the active one."""
    on_empty: str = "delete"
    """What becomes of an empty generation's file: "delete", "reset" (kept for the next one), "truncate"."""
    wipe: bool = False
    """Whether its bytes are overwritten first."""
    log_age_max: int | None = None
    """Records older than this are let go although a feed consumer has not acknowledged them; None: never."""
    log_bytes_max: int | None = None
    """The oldest records are let go, likewise, when those that are kept for consumers take more than this."""
    compact: bool = False
    """Whether the log stays when it has no follower, with the last change of each key, for followers that come later."""
    log_old: bool = False
    """Whether the log keeps the data before a change as well, for followers: `event.old`. It makes records larger."""
    schema: Schema | None = None
    """What the data of entries has; a changed one takes effect with the next generation."""
    buckets: int = BUCKETS_DEFAULT
    """Into how many parts the keys are divided, for consumers that claim by ranges of them."""
    merged: bool = False
    """Whether it shares its generations, its log and its syncs with all other merged journals of the store."""
    timeline: str = "epoch-ms"
    """What the journal's dates mean; readers refuse to join different ones."""


def check_name(name: str) -> str:
    """A journal's name, or the reason why it cannot be one."""
    if type(name) is not str or NAME.fullmatch(name) is None:
        raise Invalid(
            f"{name!r} is not a journal name: 1 to 64 of A-Z a-z 0-9 _ . - , beginning with a letter or digit"
        )
    if name.lower() in RESERVED:
        raise Invalid(f"{name!r} is a file of the store itself: choose another journal name")
    return name


def _int(name: str, value: Any, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise Invalid(f"{name} is {value!r}: it must be an int from {low} to {high}")
    return value


def _duration(name: str, value: Any) -> int:
    ms = duration_ms(value, name)
    if ms < 1:
        raise Invalid(f"{name} must be at least 1 ms")
    return ms


def _normal(name: str, value: Any) -> Any:
    match name:
        case "processing_timeout":
            return _duration(name, value)
        case "postpone_max":
            return None if value is None else duration_ms(value, name)
        case "timeouts_max":
            return _int(name, value, 0, limits.TIMEOUTS_MAX)
        case "slow_from":
            return _int(name, value, 0, limits.PRIORITY_MAX + 1)
        case "entry_bytes_max":
            return _int(name, value, 1, limits.ENTRY_BYTES_MAX_LIMIT)
        case "segment_bytes_max":
            return _int(name, value, limits.SEGMENT_BYTES_MIN, limits.SEGMENT_BYTES_LIMIT)
        case "merge":
            if type(value) is not str or value not in PRESETS:
                raise Invalid(f"merge is {value!r}: it must be one of {', '.join(PRESETS)}")
        case "rotate":
            if value is not None and (type(value) is not str or value not in PERIODS):
                raise Invalid(f"rotate is {value!r}: it must be None or one of {', '.join(PERIODS)}")
        case "log_age_max":
            return None if value is None else _duration(name, value)
        case "rotate_bytes" | "log_bytes_max":
            return None if value is None else _int(name, value, 1 << 16, 1 << 50)
        case "generations_max":
            return _int(name, value, 2, 64)
        case "on_empty":
            if type(value) is not str or value not in ON_EMPTY:
                raise Invalid(f"on_empty is {value!r}: it must be one of {', '.join(ON_EMPTY)}")
        case "schema":
            if value is not None and not isinstance(value, Schema):
                raise Invalid(f"schema is {value!r}: it must be a journal.Schema or None")
        case "buckets":
            return check_buckets(value)
        case "merged" | "wipe" | "compact" | "log_old":
            if type(value) is not bool:
                raise Invalid(f"{name} is {value!r}: it must be True or False")
        case "timeline":
            if not isinstance(value, str) or not 0 < len(value) <= 255:
                raise Invalid(f"timeline is {value!r}: it must be a text of 1 to 255 characters")
    return value


def changed(current: Settings | None, given: dict[str, Any]) -> Settings:
    """The settings after opening with `given`; a new journal has no `current` ones."""
    known = {f.name for f in fields(Settings)}
    if unknown := given.keys() - known:
        raise Invalid(f"unknown setting {', '.join(sorted(unknown))}: the settings are {', '.join(sorted(known))}")
    normal = {name: _normal(name, value) for name, value in given.items()}
    is_merged = normal.get("merged", False) if current is None else current.merged
    if is_merged and (shared := SHARED & normal.keys()):
        raise Invalid(
            f"{', '.join(sorted(shared))}: merged journals have this together: give it to store.merged(...), or declare a "
            "journal that is not merged"
        )
    if current is None:
        return Settings(**normal)
    for name in FIXED & normal.keys():
        if normal[name] != getattr(current, name):
            raise Invalid(
                f"{name} is {getattr(current, name)!r} since the journal was declared and cannot become "
                f"{normal[name]!r}: declare another journal and move the entries"
            )
    return replace(current, **normal)


def changed_for_all(current: Settings | None, given: dict[str, Any]) -> Settings:
    """The settings that all merged journals have together, after `given`."""
    if wrong := given.keys() - SHARED:
        raise Invalid(
            f"{', '.join(sorted(wrong))}: not a setting that merged journals have together; those are "
            f"{', '.join(sorted(SHARED))}. Give others to store.journal(name, merged=True, ...)"
        )
    return changed(current, given)


def to_map(settings: Settings) -> dict[str, Any]:
    """For the catalog."""
    kept = {f.name: getattr(settings, f.name) for f in fields(Settings)}
    return kept | {"schema": None if settings.schema is None else settings.schema.to_dict()}


def from_map(kept: dict[str, Any]) -> Settings:
    """From the catalog; a setting that a newer version added has its default."""
    known = {f.name for f in fields(Settings)}
    values = {name: value for name, value in kept.items() if name in known}
    if values.get("schema") is not None:
        values["schema"] = Schema.from_dict(values["schema"])
    return Settings(**values)
