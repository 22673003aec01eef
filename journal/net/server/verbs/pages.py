"""
Parts of long lists: as many items as were asked for and fit into a frame, and the place where the next part begins.

G1  A part has an item at least, or was the last: a client that continues with `after` comes to the end.
G2  `after` is the place of the last item that was given, in the order of the list: what comes and goes meanwhile is seen or not, and
    what stays is seen once.
"""

from __future__ import annotations

from typing import Any

from journal.core.limits import LIST_MAX
from journal.core.quoting import shown
from journal.errors import Invalid


class Page:
    """One part of a list."""

    def __init__(self, room: int, limit: int | None) -> None:
        self._whole = room
        self._limit = min(limit or LIST_MAX, LIST_MAX)
        self._room = room
        self._items: list[Any] = []
        self._after: bytes | None = None

    def add(self, item: Any, size: int, place: bytes, name: Any) -> bool:
        """Take an item; False when there is no more room, and the item is the first of the next part."""
        if len(self._items) == self._limit:
            return False
        if size > self._room:
            if not self._items:
                raise too_large(self._whole, name, size)
            return False
        self._room -= size
        self._items.append(item)
        self._after = place
        return True

    def reply(self, name: str, *, is_last: bool = False) -> dict[str, Any]:
        """The part, as a reply."""
        return {name: self._items, "after": None if is_last else self._after}


def too_large(room: int, name: Any, size: int) -> Invalid:
    """What is said of an item that fits into no frame."""
    return Invalid(
        f"{shown(name)} has {size} bytes, and a frame has room for {room}: read it in the process that has the store, or let "
        "the daemon have larger frames (frame_bytes_max)"
    )
