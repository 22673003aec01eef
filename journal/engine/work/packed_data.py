"""
Data that comes packed, from the wire: checked and stored as it is.

D1  What is stored can be read: it is exactly one msgpack value that `unpack_data` can unpack. The check is done in C, and keeps nothing.
D2  A journal with a schema unpacks it, checks it as it checks any other, and stores what the schema makes of it.
"""

from __future__ import annotations

from typing import Any

import msgpack

from journal.core.entry.keys import UserKey
from journal.core.entry.rows import BIN8, pack_data
from journal.core.schema.schema import Schema
from journal.engine.arguments import checked
from journal.errors import Invalid

_unpackb = msgpack.unpackb


def check_packed(data: bytes) -> bytes:
    """The same bytes, if they are one msgpack value (D1)."""
    if data[0] == BIN8:  # the usual case, which `unpack_data` reads by itself
        if len(data) > 1 and len(data) == data[1] + 2:
            return data
        raise Invalid(f"the data is not one packed msgpack value: {len(data)} bytes do not hold what the first two say")
    unpack(data)
    return data


def unpack(data: bytes) -> Any:
    """The value of packed data."""
    try:
        return _unpackb(data, strict_map_key=False)
    except (TypeError, ValueError, OverflowError, RecursionError) as e:
        raise Invalid(f"the data is not one packed msgpack value: {str(e) or type(e).__name__}") from e


def checked_packed(schema: Schema | None, key: UserKey | None, data: Any) -> tuple[UserKey, Any]:
    """`arguments.checked` of packed data (D2)."""
    if schema is None:
        return checked(schema, key, data)
    stored_key, stored = checked(schema, key, unpack(data))
    return stored_key, pack_data(stored)
