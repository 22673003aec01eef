"""
The commands about journals by their names, and about the store.

V1  What is read of many journals, or may be long, is cut to what a frame holds, and says so.
V2  A journal is made by DECLARE, and by nothing else.
V3  A reply about the whole store names only journals that the identity may see. What merged journals have together goes by the name
    MERGED: it is for identities that may see that name.
"""

from __future__ import annotations

from typing import Any

import msgpack

from journal.core.limits import LIST_MAX
from journal.core.quoting import shown
from journal.core.requests.read import SettingsRequest
from journal.core.schema.schema import Schema
from journal.core.settings import MERGED, check_name, to_map
from journal.engine.store import EngineStore
from journal.errors import AccessDenied, NotFound
from journal.net.server.verbs.frame_sizes import cut
from journal.net.server.verbs.served_journal import room_of, served_of
from journal.net.wire.auth import Grant
from journal.net.wire.values import flag_to

FLAG_BYTES = 64


def declare(store: EngineStore, name: str, given: dict[str, Any], grant: Grant) -> Any:
    """DECLARE."""
    check_name(name)
    return store.journal(name, _settings(given)).call(SettingsRequest())


def drop(store: EngineStore, name: str, given: dict[str, Any], grant: Grant) -> Any:
    """DROP."""
    served_of(store, name, grant)  # says which there are, of those that the identity may see
    store.drop(name)


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    settings = dict(given.get("settings") or {})
    if settings.get("schema") is not None:
        settings["schema"] = Schema.from_dict(settings["schema"])
    return settings


def merged(store: EngineStore, given: dict[str, Any], grant: Grant) -> Any:
    """MERGED (V3)."""
    if not grant.may_see(MERGED):
        raise AccessDenied(
            f"{shown(grant.identity)} has no right to what all merged journals have together: its token needs {MERGED} or * "
            "among its journals"
        )
    return to_map(store.merged(_settings(given)).settings)


def flags(store: EngineStore, given: dict[str, Any], grant: Grant) -> Any:
    """FLAGS; their messages are cut where they would fill a frame (V1, V3)."""
    found = [flag for flag in store.flags() if grant.may_see(flag.journal)][:LIST_MAX]
    room = room_of(store)
    wire = [flag_to(flag) for flag in found]
    if len(msgpack.packb(wire)) > room:
        names = sum(FLAG_BYTES + len(flag.journal) + len(flag.name.encode()) for flag in found)
        most = max(0, room - names) // len(found)
        for flag in wire:
            flag[2] = cut(flag[2], most)
    return wire


def lower(store: EngineStore, given: dict[str, Any], grant: Grant) -> Any:
    """LOWER."""
    name = given["journal"]
    if name != MERGED and name not in store.journals():  # V2
        raise NotFound(f"there is no journal {shown(name)}, and no flag on it")
    store.lower(name, given["name"])


def statistics(store: EngineStore, given: dict[str, Any], grant: Grant) -> Any:
    """STORE_STATISTICS; with `left_off`, the number of journals that a frame has no room for (V1, V3)."""
    found = _seen(store.statistics(), grant)
    room = room_of(store) - len(msgpack.packb(found | {"journals": None}))
    journals: dict[str, Any] = found["journals"]
    kept: dict[str, Any] = {}
    for name, each in journals.items():
        room -= len(msgpack.packb(each)) + len(name) + 5
        if room < 0 or len(kept) == LIST_MAX:
            break
        kept[name] = each
    return found | {"journals": kept} | ({"left_off": len(journals) - len(kept)} if len(kept) < len(journals) else {})


def _seen(found: dict[str, Any], grant: Grant) -> dict[str, Any]:
    """Of the statistics, what the identity may see (V3)."""
    if "*" in grant.journals:
        return found
    merged: dict[str, Any] | None = found["merged"]
    if merged is not None and not grant.may_see(MERGED):
        merged = {"counts": {name: count for name, count in merged["counts"].items() if grant.may_see(name)}}
    journals = {name: each for name, each in found["journals"].items() if grant.may_see(name)}
    return found | {"journals": journals, "merged": merged}


def checkpoint(store: EngineStore, given: dict[str, Any], grant: Grant) -> Any:
    """CHECKPOINT."""
    store.checkpoint()


def _check_seen(store: EngineStore, grant: Grant, is_deep: bool) -> list[str]:
    """What Store.check finds, of what the identity may see (V3)."""
    found: list[str] = []
    for name in filter(grant.may_see, store.alone()):
        found += store.check_of(name, deep=is_deep)
    if store.has_merged() and grant.may_see(MERGED):
        found += store.check_of(MERGED, deep=is_deep)
    return found


def check(store: EngineStore, given: dict[str, Any], grant: Grant) -> Any:
    """CHECK; what a frame has no room for is counted (V1, V3)."""
    is_deep = given.get("deep") or False
    found = store.check(deep=is_deep) if "*" in grant.journals else _check_seen(store, grant, is_deep)
    room = room_of(store)
    kept: list[str] = []
    for text in found:
        room -= len(text.encode("utf-8", "replace")) + 5
        if room < 0 or len(kept) == LIST_MAX - 1:
            kept.append(f"… and {len(found) - len(kept)} more")
            break
        kept.append(text)
    return kept
