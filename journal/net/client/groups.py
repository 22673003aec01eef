"""Groups over a connection: as many frames as one needs. What is not acceptable gets its error in its place, and is not sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from journal.core.limits import LIST_MAX
from journal.core.quoting import shown
from journal.errors import Invalid
from journal.net.wire.frames import TooLong
from journal.net.wire.limits import DEFAULT

GROUP_BYTES = DEFAULT.frame_bytes_max * 3 // 4
"""What of a group is sent in one frame, by a guess that is never too low for what it leaves free. Where frames are smaller it is halved."""
_ITEM_BYTES = 160
"""The names and numbers of one item."""
Item = dict[str, Any]
Ask = Callable[[list[Item]], list[Any]]
"""Sends a part of a group; an answer for each item."""


def send_group(items: list[Any], to_wire: Callable[[Any], Item], ask: Ask, read: Callable[[Any], Any]) -> list[Any]:
    """Send all items; a result or an error for each, in order."""
    results: list[Any] = [None] * len(items)
    for places, part in _parts(items, to_wire, results):
        _send(ask, places, part, read, results)
    return results


def _send(ask: Ask, places: list[int], part: list[Item], read: Callable[[Any], Any], results: list[Any]) -> None:
    """Send a part. Frames may be smaller than was guessed: then in halves, down to the item that fits into none."""
    try:
        answers = ask(part)
    except TooLong as e:
        if len(part) == 1:
            results[places[0]] = Invalid(f"the entry {shown(part[0].get('key'))} fits into no frame: {e}")
            return
        half = len(part) // 2
        for cut in (slice(half), slice(half, None)):
            _send(ask, places[cut], part[cut], read, results)
        return
    for place, answer in zip(places, answers, strict=True):
        results[place] = read(answer)


def _parts(
    items: list[Any], to_wire: Callable[[Any], Item], results: list[Any]
) -> Iterator[tuple[list[int], list[Item]]]:
    """The parts that fit into a frame each, with the places of their items; errors go into the results."""
    places: list[int] = []
    part: list[Item] = []
    size = 0
    for place, item in enumerate(items):
        try:
            wire = to_wire(item)
        except Invalid as e:
            results[place] = e
            continue
        room = _ITEM_BYTES + len(wire.get("data", b"")) + 4 * len(wire.get("key", ()))
        if part and (size + room > GROUP_BYTES or len(part) >= LIST_MAX):
            yield places, part
            places, part, size = [], [], 0
        places.append(place)
        part.append(wire)
        size += room
    if part:
        yield places, part
