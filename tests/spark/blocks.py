"""Blocks made by hand, as a snapshot gives them."""

from __future__ import annotations

from typing import Any, NamedTuple

from journal.core.entry.keys import UserKey, key_bytes, murmur, primary_key
from journal.core.entry.rows import PROCESSING, Row, encode_lease, encode_row, pack_data

NOW = 1_700_000_000_000


class Made(NamedTuple):
    """What columns need of a block."""

    primaries: list[bytes]
    values: list[bytes]
    leases: dict[int, bytes]


def block(*rows: dict[str, Any]) -> Made:
    """A block of rows; what a row does not say has a usual value."""
    made = Made([], [], {})
    for n, row in enumerate(rows):
        key: UserKey = row.get("key", f"k{n}")
        primary = primary_key(row.get("priority", 100), row.get("date", NOW), n, murmur(key_bytes(key), 0) + b"\0")
        stored = Row(
            primary,
            row.get("insertion", NOW),
            row.get("expiration", 0),
            row.get("insertion", NOW),
            n,
            row.get("version", 1),
            row.get("timeouts", 0),
            row.get("owner", "").encode(),
            key,
            pack_data(row.get("data")),
        )
        made.primaries.append(primary)
        made.values.append(encode_row(stored))
        if "lease" in row:
            consumer, start, deadline, version, timeouts = row["lease"]
            status = row.get("status", PROCESSING)
            made.leases[n] = encode_lease(primary, status, version, timeouts, start, deadline, 7, n, consumer.encode())
    return made
