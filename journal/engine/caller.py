"""
The caller of a verb: in which form data comes and goes, what fits into a reply, and under which names it may act.

A program in this process passes values and gets values (LOCAL). The daemon passes on what its clients packed and sends what is stored,
so the same verbs serve both; see journal.net.server.verbs.

D1  What is stored can be read: packed data is exactly one msgpack value that `unpack_data` can unpack. The check is done in C, and
    keeps nothing.
D2  A journal with a schema unpacks packed data, checks it as it checks any other, and stores what the schema makes of it.
D3  A lease belongs to its consumer: a caller that may not act under the consumer's name can neither read nor end it. This is checked
    where the engine looks the lease up, under its lock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgpack

from journal.core.entry.keys import UserKey
from journal.core.entry.rows import BIN8, Row, pack_data
from journal.core.schema.schema import Schema
from journal.core.values import entry_of
from journal.engine.arguments import Checked, Pack, checked
from journal.engine.state.leases import Held
from journal.errors import Invalid

_unpackb = msgpack.unpackb


class Bounds(NamedTuple):
    """What a row of a load must keep to besides what every row must."""

    data_bytes_max: int = 1 << 40
    may_own: Callable[[str], bool] | None = None
    """Whether rows may belong to this producer group; None: to any."""


UNBOUNDED = Bounds()


class Fits(Protocol):
    """What of due entries a reply can hold."""

    room: int
    """Bytes of the leases of one reply."""
    value_max: int
    """The most bytes of a stored entry whose lease fits into a reply, whatever its consumer's name."""

    def size(self, row: Row) -> int: ...
    def passed_over(self, found: list[tuple[bytes, Row | None]]) -> None: ...
    def is_new(self, primary: bytes) -> bool: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """See the module."""

    pack: Pack = pack_data
    """The bytes that are stored of what a put has as its data."""
    checked: Checked = checked
    entry: Callable[[Row, str, int], Any] = entry_of
    """What an entry of a reply is made of: a row, its status, and when its lease began."""
    check: Callable[[Held], None] | None = None
    """Refuses a lease of a consumer under whose name the caller may not act (D3); None: it may under every name."""
    fits: Fits | None = None
    bounds: Bounds = UNBOUNDED
    """What else the rows of a load must keep to."""


LOCAL = Caller()
"""A program in this process."""


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
