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

from journal.core.arguments import BURIED
from journal.core.entry.keys import PRIMARY_BYTES, UserKey, key_bytes
from journal.core.entry.rows import Row
from journal.core.limits import LIST_MAX
from journal.core.requests.read import ScanRequest, SelectRequest
from journal.core.requests.request import Role
from journal.engine.read.burials import BuriedFilter, walk
from journal.engine.read.queries import LIMIT, filter_of, rows_of
from journal.engine.read.selection import ROWS, Filter, Selection
from journal.engine.state.leases import Held
from journal.errors import Invalid
from journal.net.server.verbs.frame_sizes import entry_bytes, entry_columns, filled_columns
from journal.net.server.verbs.pages import Page, too_large
from journal.net.server.verbs.served_journal import STEP, Served
from journal.net.wire.auth import EVERYTHING, Grant

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
    (found,) = rows_of(served.p, [(key, key_bytes(key))])
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
        for found in rows_of(served.p, keys[start : start + STEP]):
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
    asked: Any = SelectRequest.command.from_wire(given)
    return _page(served, given, grant, filter_of(served.p, asked), LIMIT)


def scan(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """SCAN."""
    asked: Any = ScanRequest.command.from_wire(given)
    wanted = filter_of(served.p, asked)
    if asked.status == BURIED:
        return _buried(served, given, grant, wanted)
    return _page(served, given, grant, wanted, LIST_MAX)


def entries_of(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """ENTRIES_OF."""
    return _page(served, given, grant, Filter(owner=given["owner"].encode()), LIMIT)


def _buried(served: Served, given: dict[str, Any], grant: Grant, wanted: Filter) -> Any:
    """SCAN of buried entries, in the order of burial."""
    which = BuriedFilter(wanted=wanted)
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
