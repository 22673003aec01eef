"""
Rows of the engine as the columns of the wire (journal.net.wire.values), and how many bytes they take in a frame.

Data stays packed from the client that put it to the client that reads it: what the engine stores is what is sent.

K1  `x_bytes` is never less than what the columns take when they are packed.
"""

from __future__ import annotations

from typing import Any

import msgpack

from journal.core.entry.rows import BuriedRow, Row, pack_data, place, unpack_data
from journal.core.values import Generation
from journal.engine.state.leases import Held
from journal.engine.work.claim import Consuming
from journal.net.wire.values import generation_to

LEASE_BYTES = 100
ENTRY_BYTES = 80
BURIED_BYTES = 16
"""What the columns of fixed width and the heads of all take at most; keys, data and names come on top."""


def lease_columns(side: Consuming, held: Held, row: Row) -> list[Any]:
    """A lease, as `Consuming` makes its leases."""
    primary, key, data = held.primary, held.key, row[9]
    priority, process_date = place(primary)
    owner = held.owner
    return [
        key, data, priority, process_date, held.deadline, held.token, held.timeouts, held.version, held.consumer,
        held.start, owner.decode() if owner else None, row[1], held.expiration,
    ]  # fmt: skip


def entry_columns(row: Row, status: str = "W", start: int = 0) -> list[Any]:
    """An entry, as `values.entry_of` makes one."""
    priority, process_date = place(row.primary)
    return [
        row.key, row.data, priority, process_date, row.insertion, row.expiration, status, row.timeouts,
        row.owner.decode() or None, row.version, start,
    ]  # fmt: skip


def filled_columns(entry: list[Any], blank: dict[str, Any] | None) -> list[Any]:
    """The entry with all fields of the schemas, None for those that it does not have, as `selection.filled`."""
    if blank is not None and isinstance(data := unpack_data(entry[1]), dict):
        entry[1] = pack_data(blank | data)
    return entry


def buried_columns(buried: BuriedRow) -> list[Any]:
    """A buried entry."""
    return [entry_columns(buried.row, "B"), buried.reason, buried.date]


def generations_columns(generations: list[Generation], room: int) -> list[Any]:
    """Generations; where they would fill a frame, not all of their followers are named."""
    wire = [generation_to(generation) for generation in generations]
    names = max((len(generation.consumers) for generation in generations), default=0)
    while names and len(msgpack.packb(wire)) > room:
        names //= 2
        wire = [generation_to(each._replace(consumers=each.consumers[:names])) for each in generations]
    return wire


def text_bytes(value: str | bytes | None) -> int:
    """The bytes of a text or of bytes, without their head."""
    return 0 if value is None else len(value) if type(value) is bytes else len(value.encode())  # type: ignore[union-attr]


def lease_bytes(lease: list[Any]) -> int:
    """What a lease takes in a frame, at most (K1)."""
    return LEASE_BYTES + text_bytes(lease[0]) + len(lease[1]) + text_bytes(lease[8]) + text_bytes(lease[10])


def entry_bytes(entry: list[Any]) -> int:
    """What an entry takes in a frame, at most (K1)."""
    return ENTRY_BYTES + text_bytes(entry[0]) + len(entry[1]) + text_bytes(entry[8])
