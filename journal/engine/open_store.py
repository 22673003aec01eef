"""Opening a store: its options, checked."""

from __future__ import annotations

import os
from pathlib import Path

from journal.core.times import DurationLike, duration_ms
from journal.engine.files.lmdb import MAP_BYTES
from journal.engine.log.durability import FULL, OS, level_named
from journal.engine.runtime.clock import EngineTime, as_clock
from journal.engine.store import EngineStore
from journal.errors import Invalid

VERIFY = ("auto", "full")


def open_store(
    path: str | os.PathLike[str],
    *,
    durability: str = "full",
    sync_interval: DurationLike = "50ms",
    claims: str = "os",
    clock: object | None = None,
    readonly: bool = False,
    verify: str = "auto",
    map_bytes: int = MAP_BYTES,
) -> EngineStore:
    """Make or open a store and own it, or look at one."""
    level = level_named(durability)
    if claims not in ("os", "full"):
        raise Invalid(f"claims is {claims!r}: it must be 'os' (a power cut may forget a claim) or 'full'")
    if verify not in VERIFY:
        raise Invalid(f"verify is {verify!r}: it must be one of {', '.join(VERIFY)}")
    if type(map_bytes) is not int or map_bytes < 1 << 20:
        raise Invalid(f"map_bytes is {map_bytes!r}: it must be an int of at least {1 << 20}")
    interval = duration_ms(sync_interval, "sync_interval")
    return EngineStore(
        Path(path).absolute(), level=level, claim_level=FULL if claims == "full" else min(level, OS), sync_s=max(interval, 1) / 1000,
        time=EngineTime(as_clock(clock)), is_deep=verify == "full", is_readonly=readonly, map_bytes=map_bytes,
    )  # fmt: skip
