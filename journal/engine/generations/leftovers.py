"""
What moves from an older generation to the active one in one step: so few entries that callers do not notice the step.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from journal.core.entry import effects as fx
from journal.core.entry.keys import SLOT_AT
from journal.core.entry.rows import encode_lease
from journal.engine.state.apply import JournalState
from journal.engine.state.file import GenerationRows

CARRY = 128
CARRY_BYTES = 256 << 10
"""Of a step, with the one that is beyond it. 128 entries of 100 bytes hold the lock for 1 to 2 ms, less than a checkpoint does."""
LOOK_MAX = 4096


def survivors(state: JournalState, rows: GenerationRows, *, with_leased: bool) -> fx.Carry | None:
    """Some entries of a generation, or buried ones; None when there are none. Under a lease: only if they are asked for."""
    leased = state.leases.by_primary
    looked = islice(rows.all(rows.entries), min(CARRY + len(leased), LOOK_MAX))
    moving = _step(item for item in looked if with_leased or item[0] not in leased)
    buried = _step(rows.all(rows.buried)) if not moving else []
    if not moving and not buried:
        return None
    expired: list[bytes] = []
    successors: list[bytes] = []
    for primary, _ in moving:
        lease, held = state.leases.expired_rows.get(primary), leased.get(primary)
        if held is not None:
            expired += (primary, held.encoded())
            if held.has_successor:
                successors += (primary[SLOT_AT:], state.successor_value(held))
        elif lease is not None:
            expired += (primary, encode_lease(primary, *lease[:7], b""))
    entries = [part for item in moving for part in item]
    return fx.Carry(entries, expired, [part for item in buried for part in item], successors)


def _step(items: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """As many of the first ones as a step may have."""
    taken: list[tuple[bytes, bytes]] = []
    size = 0
    for item in islice(items, CARRY):
        taken.append(item)
        size += len(item[1])
        if size >= CARRY_BYTES:
            break
    return taken
