"""
Parts of long lists: as many items as were asked for and fit into a frame, and the place where the next part begins.

G1  A part has an item at least, or was the last: a client that continues with `after` comes to the end.
G2  `after` is the place of the last item that was given, in the order of the list: what comes and goes meanwhile is seen or not, and
    what stays is seen once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from journal.core.limits import LIST_MAX
from journal.core.quoting import shown
from journal.errors import Invalid

Item = tuple[Any, int, bytes, Any]
"""One of a list: as it is sent, the bytes that it takes at most, its place in the order of the list, and its name for messages."""


def first_part(items: Iterable[Item], name: str, room: int, limit: int | None) -> dict[str, Any]:
    """The reply with the first items of a list."""
    found: list[Any] = []
    after: bytes | None = None
    rest = room
    for item, size, place, called in items:
        if len(found) == (limit or LIST_MAX) or size > rest:
            if not found:
                raise too_large(room, called, size)
            return {name: found, "after": after}
        rest -= size
        found.append(item)
        after = place
    return {name: found, "after": None}


def too_large(room: int, name: Any, size: int) -> Invalid:
    """What is said of an item that fits into no frame."""
    return Invalid(
        f"{shown(name)} has {size} bytes, and a frame has room for {room}: read it in the process that has the store, or let "
        "the daemon have larger frames (frame_bytes_max)"
    )
