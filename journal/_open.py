"""`journal.open`: makes or opens a store."""

from __future__ import annotations

import os

from journal.api.store import Store
from journal.core.times import DurationLike
from journal.engine.files.lmdb import MAP_BYTES
from journal.engine.open_store import open_store
from journal.engine.store import EngineStore
from journal.shield import SHIELD


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
    store: EngineStore | None = None
    try:
        with SHIELD:
            store = open_store(
                path, durability=durability, sync_interval=sync_interval, claims=claims, clock=clock, readonly=readonly,
                verify=verify, map_bytes=map_bytes,
            )  # fmt: skip
    except BaseException:
        if store is not None:
            store.close()  # it was interrupted when it was open: no caller has it
        raise
    return Store(store)
