"""
What is read: entries by their keys, and lists that come in parts (journal.net.server.verbs.pages): of entries, leases, buried entries,
feed consumers, owners, journals.

A list has an order that does not change while it is walked through, and `after` is a place in it: of leases their deadline and token (one
that is extended meanwhile comes once more, none is passed over), of entries their primary key, of buried ones their burial, of all others
the name.

R1  An identity with the role consume or admin reads every entry of a journal that it may see. One with the role produce alone reads
    entries without an owner, and those of the groups that it may act under; for it, other entries do not exist. Numbers (COUNT,
    FORECAST, STATISTICS) are of all entries.
R2  A reply fits into a frame. What does not fit comes with the next one; an entry that fits into none is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any

from journal.core.arguments import BURIED
from journal.core.entry.keys import BEHIND_ALL, PRIMARY_BYTES, UserKey, key_bytes, owner_key
from journal.core.entry.rows import Row
from journal.core.limits import OWNER_BYTES_MAX
from journal.core.quoting import shown
from journal.core.requests.follow import FeedsRequest
from journal.core.requests.read import ScanRequest, SelectRequest
from journal.core.requests.request import Role
from journal.engine.read.burials import BuriedFilter, walk
from journal.engine.read.queries import filter_of, owners_from, rows_of
from journal.engine.read.selection import ROWS, Filter, Selection
from journal.engine.state.leases import Held
from journal.engine.store import EngineStore
from journal.errors import AccessDenied, Invalid
from journal.net.server.verbs.frame_sizes import BURIED_BYTES, entry_bytes, filled_columns, lease_bytes, text_bytes
from journal.net.server.verbs.pages import Item, too_large
from journal.net.server.verbs.served_journal import STEP, Served
from journal.net.wire.auth import EVERYTHING, Grant
from journal.net.wire.values import buried_to, entry_to, feed_to, lease_to

FEED_BYTES = 64
OWNER_BYTES = 16
LOOK_UPS = 1024
"""Keys that are looked up for one reply: some milliseconds."""

_PLACE = Struct(">QQ")
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
    entry = entry_to(*found)
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
            entry = None if found is None or not is_readable(found[0]) else entry_to(*found)
            size = 1 if entry is None else entry_bytes(entry)
            if size > room:
                if entries:
                    return entries
                raise too_large(served.room, given["keys"][0], size)
            room -= size
            entries.append(entry)
    return entries


def select(served: Served, given: dict[str, Any], grant: Grant) -> Iterator[Item]:
    """SELECT."""
    asked: Any = SelectRequest.command.from_wire(given)
    return _entries(served, given, grant, filter_of(served.p, asked))


def scan(served: Served, given: dict[str, Any], grant: Grant) -> Iterator[Item]:
    """SCAN; of buried entries in the order of burial."""
    asked: Any = ScanRequest.command.from_wire(given)
    wanted = filter_of(served.p, asked)
    return (_scan_buried if asked.status == BURIED else _entries)(served, given, grant, wanted)


def entries_of(served: Served, given: dict[str, Any], grant: Grant) -> Iterator[Item]:
    """ENTRIES_OF."""
    return _entries(served, given, grant, Filter(owner=given["owner"].encode()))


def _entries(served: Served, given: dict[str, Any], grant: Grant, wanted: Filter) -> Iterator[Item]:
    """Entries in the order of work."""
    p = served.p
    selection = Selection(p, wanted)
    is_readable = may_read(grant)
    blank = p.generations.blank
    following: bytes | None = _start(given.get("after"))
    step = STEP
    while following is not None:
        found: list[tuple[Row, Held | None]] = []
        following, settle_at = selection.read(following, step, found)
        if settle_at >= 0:
            p.settle(settle_at)
        for row, held in found:
            if is_readable(row):
                entry = filled_columns(entry_to(row) if held is None else entry_to(row, "P", held.start), blank)
                yield entry, entry_bytes(entry), row.primary, row.key
        step = min(ROWS, 2 * step)


def _start(after: bytes | None) -> bytes:
    if after is None:
        return b""
    if len(after) != PRIMARY_BYTES:
        raise Invalid(f"after has {len(after)} bytes: it must be what the page before this one has as `after`, or null")
    return after + b"\0"


def _scan_buried(served: Served, given: dict[str, Any], grant: Grant, wanted: Filter) -> Iterator[Item]:
    which = BuriedFilter(wanted=wanted)
    is_readable = may_read(grant)
    blank = served.p.generations.blank
    for place, buried in walk(served.p, _after(given)):
        row = buried.row
        if which.has(buried) and is_readable(row):
            entry = filled_columns(entry_to(row, "B"), blank)
            yield entry, entry_bytes(entry), place, row.key


def buried(served: Served, given: dict[str, Any], grant: Grant) -> Iterator[Item]:
    """BURIED."""
    which = BuriedFilter(given.get("prefix"), given.get("reason"))
    for place, row in walk(served.p, _after(given)):
        if which.has(row):
            wire = buried_to(row)
            yield wire, BURIED_BYTES + entry_bytes(wire[0]) + text_bytes(row.reason), place, row.row.key


def leases(served: Served, given: dict[str, Any], grant: Grant) -> Iterator[Item]:
    """LEASES; those that are gone meanwhile are left out. Some are read under the lock at a time."""
    p, consumer, after = served.p, given.get("consumer"), _after(given)
    if consumer is None and Role.ADMIN not in grant.roles:
        raise AccessDenied(f"{shown(grant.identity)} may not see the leases of all: it needs the role admin")
    with p.lock:
        p.enter()
        held = p.state.leases.by_token.values() if consumer is None else p.state.leases.of(consumer)
        places = sorted(place for each in held if (place := _PLACE.pack(each.deadline, each.token)) > after)
    for start in range(0, len(places), STEP):
        with p.lock:
            p.enter()
            found = [(place, _lease(served, _PLACE.unpack(place)[1])) for place in places[start : start + STEP]]
        for place, lease in found:
            if lease is not None:
                yield lease, lease_bytes(lease), place, lease[0]


def _lease(served: Served, token: int) -> list[Any] | None:
    held = served.p.state.leases.by_token.get(token)
    if held is None:
        return None
    row = served.p.state.entry(held.primary)
    return lease_to(held, row.data, row.insertion)


def own_leases(served: Served, consumer: str, grant: Grant) -> list[Any]:
    """All leases of a consumer."""
    own: list[Any] = []
    for lease, size, _, key in leases(served, {"consumer": consumer}, grant):
        if size > served.room:
            raise too_large(served.room, key, size)
        own.append(lease)
    return own


def feeds(served: Served, given: dict[str, Any], grant: Grant) -> Iterator[Item]:
    """FEEDS."""
    after = _after(given)
    for view in served.journal.call(FeedsRequest()):
        name = view.name.encode()
        if name > after:
            yield feed_to(view), FEED_BYTES + len(name), name, view.name


def owners(served: Served, given: dict[str, Any], grant: Grant) -> Iterator[Item]:
    """OWNERS, in the order of their index: the shortest names first."""
    after = _after(given)
    if len(after) > OWNER_BYTES_MAX:
        raise Invalid(f"after has {len(after)} bytes: it must be what the part before this one has as `after`, or null")
    start: bytes | None = owner_key(after, BEHIND_ALL) if after else b""
    owner, count = "", 0
    while start is not None:
        found, start = owners_from(served.p, start)
        for name, more in found:
            if name == owner:
                count += more
                continue
            if count:
                yield _owner(owner, count)
            owner, count = name, more
    if count:
        yield _owner(owner, count)


def _owner(owner: str, count: int) -> Item:
    name = owner.encode()
    return [owner, count], OWNER_BYTES + len(name), name, owner


def journals(store: EngineStore, given: dict[str, Any], grant: Grant) -> Iterator[Item]:
    """JOURNALS."""
    after = _after(given)
    for name in sorted(filter(grant.may_see, store.journals())):
        if name.encode() > after:
            yield name, OWNER_BYTES + len(name), name.encode(), name


def _after(given: dict[str, Any]) -> bytes:
    after: bytes | None = given.get("after")
    return b"" if after is None else after
