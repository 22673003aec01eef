"""
The commands of operators: flags, buried entries, generations, feed consumers, settings.

V1  What is read of many journals, or may be long, is cut to what a frame holds, and says so.
V2  A journal is made by DECLARE, and by nothing else.
V3  A reply about the whole store names only journals that the identity may see. What merged journals have together goes by the name
    MERGED: it is for identities that may see that name.
"""

from __future__ import annotations

from typing import Any

import msgpack

from journal.core.limits import LIST_MAX
from journal.core.log.cursor import Cursor
from journal.core.quoting import shown
from journal.core.schema.schema import Schema
from journal.core.settings import MERGED, to_map
from journal.core.values import Flag
from journal.engine import check as checks
from journal.engine.store import Store
from journal.errors import AccessDenied, NotFound
from journal.net.server.verbs import queries
from journal.net.server.verbs.frame_sizes import generations_columns
from journal.net.server.verbs.puts import fitted
from journal.net.server.verbs.served_journal import Served, room_of, served_of
from journal.net.wire.auth import Grant
from journal.net.wire.values import flag_to, result_to

FLAG_BYTES = 64


def raise_flag(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """RAISE_FLAG."""
    served.journal.raise_flag(given["name"], given["message"], durability=given.get("durability"))


def pause(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """PAUSE."""
    served.journal.pause(given.get("reason") or "", durability=given.get("durability"))


def resume(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """RESUME."""
    return served.journal.resume(durability=given.get("durability"))


def retry(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """RETRY."""
    return result_to(served.journal.retry(given["key"], durability=given.get("durability")))


def retry_many(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """RETRY_MANY."""
    return fitted(served.journal.retry_many(given["keys"], durability=given.get("durability")), served.room)


def discard(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """DISCARD."""
    served.journal.discard(given["key"], durability=given.get("durability"))


def rotate(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """ROTATE."""
    return generations_columns([served.journal.rotate()], served.room)[0]


def compact(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """COMPACT."""
    return list(served.journal.compact())


def feed_remove(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """FEED_REMOVE."""
    served.journal.remove_feed(given["consumer"])


def feed_mark(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """FEED_MARK."""
    served.journal.mark_feed(given["consumer"], Cursor(*given["cursor"]))


def feed_skip(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """FEED_SKIP."""
    return served.journal.skip_feed(given["consumer"], Cursor(*given["cursor"]))


# -- journals by name -------------------------------------------------------------------------------------------------


def declare(store: Store, name: str, given: dict[str, Any], grant: Grant) -> Any:
    """DECLARE."""
    store.journal(name, **_settings(given))
    return queries.settings(served_of(store, name), {}, grant)


def drop(store: Store, name: str, given: dict[str, Any], grant: Grant) -> Any:
    """DROP."""
    served_of(store, name, grant)  # says which there are, of those that the identity may see
    store.drop(name)


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    settings = dict(given.get("settings") or {})
    if settings.get("schema") is not None:
        settings["schema"] = Schema.from_dict(settings["schema"])
    return settings


# -- the store --------------------------------------------------------------------------------------------------------


def merged(store: Store, given: dict[str, Any], grant: Grant) -> Any:
    """MERGED (V3)."""
    if not grant.may_see(MERGED):
        raise AccessDenied(
            f"{shown(grant.identity)} has no right to what all merged journals have together: its token needs {MERGED} or * "
            "among its journals"
        )
    return to_map(store.merged(**_settings(given)).settings)


def flags(store: Store, given: dict[str, Any], grant: Grant) -> Any:
    """FLAGS; their messages are cut where they would fill a frame (V1, V3)."""
    found = [flag for flag in store.flags() if grant.may_see(flag.journal)][:LIST_MAX]
    room = room_of(store)
    wire = [flag_to(flag) for flag in found]
    if len(msgpack.packb(wire)) > room:
        names = sum(FLAG_BYTES + len(flag.journal) + len(flag.name.encode()) for flag in found)
        most = max(0, room - names) // len(found)
        for flag in wire:
            flag[2] = flag[2].encode()[:most].decode("utf-8", "ignore")
    return wire


def lower(store: Store, given: dict[str, Any], grant: Grant) -> Any:
    """LOWER."""
    name = given["journal"]
    if name != MERGED and name not in store.journals():  # V2
        raise NotFound(f"there is no journal {shown(name)}, and no flag on it")
    store.lower(Flag(name, given["name"], "", 0, 0, 0))


def statistics(store: Store, given: dict[str, Any], grant: Grant) -> Any:
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


def checkpoint(store: Store, given: dict[str, Any], grant: Grant) -> Any:
    """CHECKPOINT."""
    store.checkpoint()


def _check_seen(store: Store, grant: Grant, is_deep: bool) -> list[str]:
    """What Store.check finds, of what the identity may see (V3)."""
    found: list[str] = []
    for name in filter(grant.may_see, store._alone()):
        found += checks.check(store.journal(name)._p, is_deep=is_deep)
    if store._has_merged() and grant.may_see(MERGED):
        found += checks.check(store.merged()._p, is_deep=is_deep)
    return found


def check(store: Store, given: dict[str, Any], grant: Grant) -> Any:
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
