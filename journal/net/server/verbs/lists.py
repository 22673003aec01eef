"""
Lists that come in parts: leases, buried entries, feed consumers, owners, journals.

Each has an order that does not change while it is walked through, and `after` is a place in it: of leases their deadline and token (one
that is extended meanwhile comes once more, none is passed over), of all others the name.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, TypeVar

from journal.core.entry.keys import BEHIND_ALL, owner_key
from journal.core.limits import OWNER_BYTES_MAX
from journal.core.quoting import shown
from journal.core.requests.follow import FeedsRequest
from journal.core.requests.request import Role
from journal.engine.read.burials import BuriedFilter, walk
from journal.engine.read.queries import owners_from
from journal.engine.store import EngineStore
from journal.errors import AccessDenied, Invalid
from journal.net.server.verbs.frame_sizes import (
    BURIED_BYTES,
    buried_columns,
    entry_bytes,
    lease_bytes,
    lease_columns,
    text_bytes,
)
from journal.net.server.verbs.pages import Page
from journal.net.server.verbs.served_journal import STEP, Served, room_of
from journal.net.wire.auth import Grant
from journal.net.wire.values import feed_to

T = TypeVar("T")
FEED_BYTES = 64
OWNER_BYTES = 16
_PLACE = Struct(">QQ")


def leases(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """LEASES."""
    p = served.p
    consumer = given.get("consumer")
    if consumer is None and Role.ADMIN not in grant.roles:
        raise AccessDenied(f"{shown(grant.identity)} may not see the leases of all: it needs the role admin")
    with p.lock:
        p.enter()
        held = p.state.leases.by_token.values() if consumer is None else p.state.leases.of(consumer)
        tokens = {_PLACE.pack(each.deadline, each.token): each.token for each in held}
    return _walk(served, given, "leases", tokens, _lease)


def own_leases(served: Served, consumer: str, grant: Grant) -> list[Any]:
    """All leases of a consumer."""
    own: list[Any] = []
    asked: dict[str, Any] = {"consumer": consumer}
    while True:
        page = leases(served, asked, grant)
        own += page["leases"]
        if page["after"] is None:
            return own
        asked["after"] = page["after"]


def _lease(served: Served, token: int) -> tuple[Any, int, Any] | None:
    state = served.p.state
    held = state.leases.by_token.get(token)
    if held is None:
        return None
    row = state.entry(held.primary)
    lease = lease_columns(held, row.data, row.insertion)
    return lease, lease_bytes(lease), held.key


def buried(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """BURIED."""
    which = BuriedFilter(given.get("prefix"), given.get("reason"))
    page = Page(served.room, given.get("limit"))
    for place, row in walk(served.p, _after(given)):
        if which.has(row):
            wire = buried_columns(row)
            size = BURIED_BYTES + entry_bytes(wire[0]) + text_bytes(row.reason)
            if not page.add(wire, size, place, row.row.key):
                return page.reply("buried")
    return page.reply("buried", is_last=True)


def _walk(
    served: Served,
    given: dict[str, Any],
    name: str,
    found: dict[bytes, T],
    read: Callable[[Served, T], tuple[Any, int, Any] | None],
) -> dict[str, Any]:
    """What was found, by its place, from `after` on; what is gone meanwhile is left out. Some is read under the lock at a time."""
    after = _after(given)
    places = sorted(place for place in found if place > after)
    page = Page(served.room, given.get("limit"))
    for start in range(0, len(places), STEP):
        with served.p.lock:
            served.p.enter()
            items = [(place, read(served, found[place])) for place in places[start : start + STEP]]
        for place, item in items:
            if item is not None and not page.add(item[0], item[1], place, item[2]):
                return page.reply(name)
    return page.reply(name, is_last=True)


def feeds(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """FEEDS."""
    after = _after(given)
    page = Page(served.room, given.get("limit"))
    for view in served.journal.call(FeedsRequest()):
        name = view.name.encode()
        if name > after and not page.add(feed_to(view), FEED_BYTES + len(name), name, view.name):
            return page.reply("feeds")
    return page.reply("feeds", is_last=True)


def owners(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """OWNERS, in the order of their index: the shortest names first."""
    after = _after(given)
    if len(after) > OWNER_BYTES_MAX:
        raise Invalid(f"after has {len(after)} bytes: it must be what the part before this one has as `after`, or null")
    page = Page(served.room, given.get("limit"))
    start: bytes | None = owner_key(after, BEHIND_ALL) if after else b""
    owner, count = "", 0
    while start is not None:
        found, start = owners_from(served.p, start)
        for name, more in found:
            if name == owner:
                count += more
                continue
            if count and not _add_owner(page, owner, count):
                return page.reply("owners")
            owner, count = name, more
    if count and not _add_owner(page, owner, count):
        return page.reply("owners")
    return page.reply("owners", is_last=True)


def _add_owner(page: Page, owner: str, count: int) -> bool:
    name = owner.encode()
    return page.add([owner, count], OWNER_BYTES + len(name), name, owner)


def journals(store: EngineStore, given: dict[str, Any], grant: Grant) -> Any:
    """JOURNALS."""
    after = _after(given)
    page = Page(room_of(store), given.get("limit"))
    for name in sorted(filter(grant.may_see, store.journals())):
        if name.encode() > after and not page.add(name, OWNER_BYTES + len(name), name.encode(), name):
            return page.reply("journals")
    return page.reply("journals", is_last=True)


def _after(given: dict[str, Any]) -> bytes:
    after: bytes | None = given.get("after")
    return b"" if after is None else after
