"""`journal.open`: makes or opens a store."""

from __future__ import annotations

import os
from pathlib import Path

from journal.api.store import Store
from journal.core.times import DurationLike, duration_ms
from journal.engine.files.lmdb import MAP_BYTES
from journal.engine.log.durability import FULL, OS, level_named
from journal.engine.runtime.clock import EngineTime, as_clock
from journal.engine.store import EngineStore
from journal.errors import Invalid
from journal.shield import SHIELD

VERIFY = ("auto", "full")


def open(  # noqa: A001 - the public name is journal.open
    path: str | os.PathLike[str],
    *,
    durability: str = "full",
    sync_interval: DurationLike = "50ms",
    claims: str = "os",
    clock: object | None = None,
    readonly: bool = False,
    verify: str = "auto",
    map_bytes: int = MAP_BYTES,
) -> Store:
    """
    Make or open a store.

    durability     "full": a call returns when its record is on disk; "interval": when it is in the OS, synced every
                   `sync_interval`; "none": when it is in the process. Overridable for a call.
    claims         "os": a claim or an extend returns when its record is in the OS; "full": when it is on disk
    clock          for tests: journal.testing.ManualClock
    readonly       a look at what the last checkpoint committed, without owning the store
    verify         "full" walks every page of every file before using it
    map_bytes      the most that the rows of one journal may take
    """
    level = level_named(durability)
    if claims not in ("os", "full"):
        raise Invalid(f"claims is {claims!r}: it must be 'os' (a power cut may forget a claim) or 'full'")
    if verify not in VERIFY:
        raise Invalid(f"verify is {verify!r}: it must be one of {', '.join(VERIFY)}")
    if type(map_bytes) is not int or map_bytes < 1 << 20:
        raise Invalid(f"map_bytes is {map_bytes!r}: it must be an int of at least {1 << 20}")
    interval = duration_ms(sync_interval, "sync_interval")
    store: EngineStore | None = None
    try:
        with SHIELD:
            store = EngineStore(
                Path(path).absolute(), level=level, claim_level=FULL if claims == "full" else min(level, OS),
                sync_s=max(interval, 1) / 1000, time=EngineTime(as_clock(clock)), is_deep=verify == "full", is_readonly=readonly,
                map_bytes=map_bytes,
            )  # fmt: skip
    except BaseException:
        if store is not None:
            store.close()  # it was interrupted when it was open: no caller has it
        raise
    return Store(store)
