"""
How many bytes the columns of the wire (journal.net.wire.values) take in a frame, and how a reply is made to fit into one.

K1  `x_bytes` is never less than what the columns take when they are packed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack

from journal.core.entry.rows import pack_data, unpack_data
from journal.errors import Invalid
from journal.net.server.verbs.pages import too_large
from journal.net.wire.error_codes import MESSAGE_BYTES_MAX

LEASE_BYTES = 100
ENTRY_BYTES = 80
BURIED_BYTES = 16
"""What the columns of fixed width and the heads of all take at most; keys, data and names come on top."""
ERROR_BYTES = 60
RESULT_BYTES = 48
"""What an error without its message, and what a result takes, at most."""
REJECTED_BYTES = 24
"""What a rejected row of a load takes, without its reason, at most."""


def filled_columns(entry: list[Any], blank: dict[str, Any] | None) -> list[Any]:
    """The entry with all fields of the schemas, None for those that it does not have, as `selection.filled`."""
    if blank is not None and isinstance(data := unpack_data(entry[1]), dict):
        entry[1] = pack_data(blank | data)
    return entry


def text_bytes(value: str | bytes | None) -> int:
    """The bytes of a text or of bytes, without their head."""
    return 0 if value is None else len(value.encode() if isinstance(value, str) else value)


def lease_bytes(lease: list[Any]) -> int:
    """What a lease takes in a frame, at most (K1)."""
    return LEASE_BYTES + text_bytes(lease[0]) + len(lease[1]) + text_bytes(lease[8]) + text_bytes(lease[10])


def entry_bytes(entry: list[Any]) -> int:
    """What an entry takes in a frame, at most (K1)."""
    return ENTRY_BYTES + text_bytes(entry[0]) + len(entry[1]) + text_bytes(entry[8])


# -- what a frame has no room for is cut ------------------------------------------------------------------------------


def fitted(wire: list[Any], room: int) -> list[Any]:
    """What the items of a group came to; the messages of errors are cut where they would fill a frame."""
    errors = [each for each in wire if type(each) is dict]
    if errors:
        most = max(0, room - RESULT_BYTES * (len(wire) - len(errors)) - ERROR_BYTES * len(errors)) // len(errors)
        if most < MESSAGE_BYTES_MAX:
            for each in errors:
                each["message"] = cut(each["message"], most)
    return wire


def cut(text: str, most: int) -> str:
    """As much of a text as so many bytes hold."""
    return text.encode()[:most].decode("utf-8", "ignore")


def _entries(wire: list[Any], room: int) -> list[Any]:
    """Entries, as many as a frame holds."""
    for n, entry in enumerate(wire):
        room -= entry_bytes(entry)
        if room < 0:
            if n == 0:
                raise too_large(room + entry_bytes(entry), entry[0], entry_bytes(entry))
            return wire[:n]
    return wire


def _generations(wire: list[Any], room: int) -> list[Any]:
    """Generations; where they would fill a frame, not all of their followers are named."""
    names = max((len(each[-1]) for each in wire), default=0)
    while names and len(msgpack.packb(wire)) > room:
        names //= 2
        wire = [[*each[:-1], each[-1][:names]] for each in wire]
    return wire


def _loaded(wire: list[Any], room: int) -> list[Any]:
    """What a load came to; the reasons of rejected rows are cut."""
    rejected = wire[-1]
    if rejected:
        most = max(0, room // len(rejected) - REJECTED_BYTES)
        for row in rejected:
            row[2] = cut(row[2], most)
    return wire


def _forecast(wire: list[Any], room: int) -> list[Any]:
    size = len(msgpack.packb(wire))
    if size > room:
        raise Invalid(
            f"the forecast has {size} bytes, and a frame has room for {room}: ask for longer steps, or for a shorter horizon and "
            "the rest with `since`"
        )
    return wire


CUTS: dict[str, Callable[[Any, int], Any]] = {
    "[result or error]": fitted,
    "[bool or error]": fitted,
    "[result, error or null]": fitted,
    "[entry]": _entries,
    "[generation]": _generations,
    "generation": lambda wire, room: _generations([wire], room)[0],
    "loaded": _loaded,
    "forecast": _forecast,
}
"""By the text of a request's reply: what makes it fit into a frame."""
