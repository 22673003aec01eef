"""
The commands of readers.

R1  An identity with the role consume or admin reads every entry of a journal that it may see. One with the role produce alone reads
    entries without an owner, and those of the groups that it may act under; for it, other entries do not exist. Numbers (COUNT,
    FORECAST, STATISTICS) are of all entries.
R2  A reply fits into a frame. What does not fit comes with the next one; an entry that fits into none is named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack

from journal.core.entry.keys import PRIMARY_BYTES, UserKey, key_bytes
from journal.core.entry.rows import Row
from journal.core.limits import LIST_MAX
from journal.core.log.cursor import Cursor
from journal.core.requests.request import Role
from journal.core.settings import to_map
from journal.engine.arguments import selectable
from journal.engine.read.burials import Which, walk
from journal.engine.read.selection import ROWS, Filter, Selection
from journal.engine.state.leases import Held
from journal.errors import Invalid
from journal.net.server.verbs.claims import range_of
from journal.net.server.verbs.frame_sizes import entry_bytes, entry_columns, filled_columns, generations_columns
from journal.net.server.verbs.pages import Page, too_large
from journal.net.server.verbs.served_journal import STEP, Served
from journal.net.wire.auth import EVERYTHING, Grant
from journal.net.wire.values import cursor_to, forecast_to

SELECT_LIMIT = 100
"""Entries of a page when the request does not say how many, as in the library."""
LOOK_UPS = 1024
"""Keys that are looked up for one reply: some milliseconds."""
_READERS = frozenset({Role.CONSUME, Role.ADMIN})


def may_read(grant: Grant) -> Callable[[Row], bool]:
    """Whether an identity may read an entry (R1)."""
    if grant is EVERYTHING or not grant.roles.isdisjoint(_READERS):
        return lambda row: True
    return lambda row: not row.owner or grant.may_act_as(row.owner.decode())


def get(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """GET."""
    key: UserKey = given["key"]
    found = served.journal._row(key, key_bytes(key))
    if found is None or not (grant is EVERYTHING or may_read(grant)(found[0])):
        return None
    entry = entry_columns(*found)
    if len(entry[1]) > served.data_max and entry_bytes(entry) > served.room:
        raise too_large(served.room, key, entry_bytes(entry))
    return entry


def get_many(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """GET_MANY."""
    keys = [(key, key_bytes(key)) for key in given["keys"][:LOOK_UPS]]
    is_readable = may_read(grant)
    room = served.room
    entries: list[Any] = []
    for start in range(0, len(keys), STEP):
        for found in served.journal._rows(keys[start : start + STEP]):
            entry = None if found is None or not is_readable(found[0]) else entry_columns(*found)
            size = 1 if entry is None else entry_bytes(entry)
            if size > served.room:
                if entries:
                    return entries
                raise too_large(served.room, given["keys"][0], size)
            room -= size
            if room < 0:
                return entries
            entries.append(entry)
    return entries


def select(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """SELECT."""
    wanted = _filter(served, given)
    selectable(wanted.status)
    return _page(served, given, grant, wanted, SELECT_LIMIT)


def scan(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """SCAN."""
    if given.get("status") == "buried":
        return _buried(served, given, grant)
    return _page(served, given, grant, _filter(served, given), LIST_MAX)


def entries_of(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """ENTRIES_OF."""
    return _page(served, given, grant, Filter(owner=given["owner"].encode()), SELECT_LIMIT)


def _buried(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """SCAN of buried entries, in the order of burial."""
    which = Which(wanted=_filter(served, given))
    is_readable = may_read(grant)
    blank = served.p.generations.blank
    page = Page(served.room, given.get("limit"))
    for place, buried in walk(served.p, given.get("after") or b""):
        row = buried.row
        if which.has(buried) and is_readable(row):
            entry = entry_columns(row, "B")
            filled_columns(entry, blank)
            if not page.add(entry, entry_bytes(entry), place, row.key):
                return page.reply("entries")
    return page.reply("entries", is_last=True)


def _filter(served: Served, given: dict[str, Any]) -> Filter:
    get = given.get
    buckets = get("buckets")
    return served.journal._filter(
        get("status"),
        get("since"),
        get("until"),
        get("owner"),
        get("consumer"),
        None if buckets is None else range_of(buckets),
    )


def _page(served: Served, given: dict[str, Any], grant: Grant, wanted: Filter, usual: int) -> dict[str, Any]:
    """Entries in the order of work, as many as are asked for and fit."""
    p = served.p
    selection = Selection(p, wanted)
    is_readable = may_read(grant)
    blank = p.generations.blank
    page = Page(served.room, given.get("limit") or usual)
    following: bytes | None = _start(given.get("after"))
    step = STEP
    while following is not None:
        found: list[tuple[Row, Held | None]] = []
        following, settle_at = selection.read(following, step, found)
        if settle_at >= 0:
            p.settle(settle_at)
        for row, held in found:
            if is_readable(row):
                entry = entry_columns(row) if held is None else entry_columns(row, "P", held.start)
                filled_columns(entry, blank)
                if not page.add(entry, entry_bytes(entry), row.primary, row.key):
                    return page.reply("entries")
        step = min(ROWS, 2 * step)
    return page.reply("entries", is_last=True)


def _start(after: bytes | None) -> bytes:
    if after is None:
        return b""
    if len(after) != PRIMARY_BYTES:
        raise Invalid(f"after has {len(after)} bytes: it must be what the page before this one has as `after`, or null")
    return after + b"\0"


def count(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """COUNT."""
    return served.journal._reads.count(_filter(served, given))


def count_of(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """COUNT_OF."""
    return served.journal.count_of(given["owner"])


def forecast(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """FORECAST."""
    asked = {name: given[name] for name in ("step", "horizon", "since") if given.get(name) is not None}
    wire = forecast_to(served.journal.forecast(**asked))
    size = len(msgpack.packb(wire))
    if size > served.room:
        raise Invalid(
            f"the forecast has {size} bytes, and a frame has room for {served.room}: ask for longer steps, or for a shorter horizon and "
            "the rest with `since`"
        )
    return wire


def statistics(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """STATISTICS."""
    return served.journal.statistics()


def settings(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """SETTINGS: those of the journal, and `union`, the fields that its data may have over all generations."""
    union = served.journal.schema
    return {**to_map(served.journal.settings), "union": None if union is None else union.to_dict()}


def generations(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """GENERATIONS."""
    return generations_columns(served.journal.generations(), served.room)


def distance(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """DISTANCE."""
    return served.journal.distance(Cursor(*given["a"]), Cursor(*given["b"]))


def shift(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """SHIFT."""
    return cursor_to(served.journal.shift(Cursor(*given["cursor"]), given["n"]))


def lag(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """LAG."""
    return served.journal.lag(Cursor(*given["cursor"]))


def oldest_cursor(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """OLDEST_CURSOR."""
    return cursor_to(served.journal.oldest_cursor)


def durable_cursor(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """DURABLE_CURSOR."""
    return cursor_to(served.journal.durable_cursor)


def wait_durable(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """WAIT_DURABLE: on a thread whose syncs are collected it does not wait, its answer does."""
    served.journal.wait_durable(Cursor(*given["cursor"]))
