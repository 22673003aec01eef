"""The look-up of keys before they are changed: it first ends a lease, or removes an entry, that has expired (timers Y2)."""

from __future__ import annotations

from collections.abc import Iterable

from journal.core.entry.keys import UserKey
from journal.core.lifecycle import Found
from journal.core.limits import ORDINAL_MAX
from journal.engine.state.reader import StoredState
from journal.engine.work.path import WorkPath
from journal.engine.work.timers import expire_entries, expire_leases
from journal.errors import Invalid


def find(p: WorkPath, key: UserKey, raw: bytes, now: int) -> Found:
    """What is stored of a key; a lease on it that has expired ends first, and an entry that has expired goes. Under the lock."""
    state = p.state
    found = state.find(key, raw, is_change=True)
    row = found.row
    if row is not None and found.is_processing:
        held = state.leases.by_primary[row.primary]
        if held.deadline <= now:
            expire_leases(p, [held], now)
            p.flush()
            found = state.find(key, raw, is_change=True)
            row = found.row
    if row is not None and row.expiration and row.expiration <= now and not found.is_processing:
        expire_entries(p, [row.primary, row.key], now)
        found = state.find(key, raw, is_change=True)
    return found


def find_each(
    p: WorkPath, keys: Iterable[tuple[UserKey, bytes]], now: int
) -> tuple[dict[UserKey, Found], dict[UserKey, Invalid]]:
    """What is stored of the keys of a group, with a slot for each that is new; and those that can have none."""
    seen: dict[UserKey, Found] = {}
    taken: set[bytes] = set()
    refused: dict[UserKey, Invalid] = {}
    for key, raw in keys:
        if key in seen or key in refused:
            continue
        try:
            found = find(p, key, raw, now)  # may let an entry expire, so all of these come before the first offset
            seen[key] = found = with_slot(p.state, key, found, taken)
        except Invalid as e:
            refused[key] = e
            continue
        taken.add(found.slot)
    return seen, refused


def with_slot(state: StoredState, key: UserKey, found: Found, taken: set[bytes]) -> Found:
    """The same; for a key that is new with the next free slot of its murmur that the group has not taken."""
    slot = found.slot
    if found.row is not None or slot not in taken:
        return found
    for ordinal in range(slot[16] + 1, ORDINAL_MAX + 1):
        candidate = slot[:16] + bytes((ordinal,))
        if candidate not in taken and not state.taken([candidate]):
            return found._replace(slot=candidate)
    raise Invalid(f"{ORDINAL_MAX + 1} entries share the hash of the key {key!r}: finish some of them first")
