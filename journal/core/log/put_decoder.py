"""
Puts, read from the log in one loop: most of what a follower reads.

`decode`, `payload` and `events_of` need 8 µs for the record of a put, this loop 1 µs. It knows the bytes of a record of
one small put, which are

    head | namespace | data length u32 | 95 01 | behind, 1 to 9 bytes | 01 | c4 22, primary key | c4 u8 or c5 u16, value
    | checksum u32

and leaves those of a large one and of a group to msgpack.

W1  A record is accepted when its offset is the one that must come next and its checksum is right.
W2  The reading ends before what is not of this kind, or not certainly: the caller has `decode`, which knows all records. How long
    primary keys are is looked at once: those of a log of the former format are shorter.
W3  Events are made when they are asked for: until then there are only bytes, which the garbage collector does not visit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any
from zlib import crc32

import msgpack

from journal.core.entry.effects import INSERT
from journal.core.entry.keys import PRIMARY_BYTES
from journal.core.entry.rows import BIN8
from journal.core.log.events import Event, Where, put_events
from journal.core.log.record import CHECKED, HEAD, HEAD_BYTES, SYNC_MODE

PutsDecoder = Callable[[bytes, int, int, int, Where], tuple[int, int, Iterator[Event]]]
"""
Of a buffer, the place of a record in it, the offset that the record must have, and the last one to read: the place and the
offset that come next, and the events, which have all of `Where` but the time.
"""

_unpackb = msgpack.unpackb
_PUT = CHECKED | SYNC_MODE | INSERT << 2
_ONE, _MANY, _LOAD = 1, 2, 22
"""The verbs of a put, of a group of puts, and of a load."""
_INT_BYTES = {**dict.fromkeys(range(0x80), 1), 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9}
"""How many bytes an int of msgpack has that begins with this one."""
_BIN16 = 0xC5
SMALL_BYTES = 4 << 10
"""A record below it is copied for its checksum, 30 ns less than a view of it; a large one is not copied."""


def puts_decoder(namespace: bytes, *, is_shared: bool = False) -> tuple[PutsDecoder, int]:
    """
    A function that reads the puts of one namespace, and how many bytes it must see behind the last of them.

    In a log that several share, it ends before the record of another one; the empty namespace has no records.
    """
    names = len(namespace)
    of_name = slice(HEAD_BYTES + 4, HEAD_BYTES + 4 + names)
    skip, to_checksum = HEAD_BYTES + 8 + names, HEAD_BYTES - 4
    least = names + 12 + 2 + 9 + 3 + PRIMARY_BYTES + 5  # what can be in front of a value
    begin = f"{HEAD.format[1:]}{names}x5xBB"
    first_of = struct.Struct(">" + begin).unpack_from
    link = struct.Struct(">I" + begin)  # the checksum of a record and the beginning of the next one, in one call
    next_of, ahead = link.unpack_from, link.size
    places = [_places(skip + 2 + _INT_BYTES.get(first, 0) + 3) for first in range(256)]

    def decode_puts(buffer: bytes, at: int, wanted: int, last: int, where: Where) -> tuple[int, int, Iterator[Event]]:
        limit, view, start = len(buffer) - ahead, memoryview(buffer), wanted
        if wanted > last or at > limit:
            return at, wanted, iter(())
        order, stamp, mode, name, blank = where
        wheres: list[Where] = []
        primaries: list[bytes] = []
        values: list[bytes] = []
        add_primary, add_value = primaries.append, values.append
        offset, length, timestamp, attribute, found, verb, behind = first_of(buffer, at)
        size_at = at + places[behind][0].start - 1
        if verb == _ONE and (size_at >= len(buffer) or buffer[size_at] != PRIMARY_BYTES):
            return at, wanted, iter(())
        while wanted <= last:
            stop = at + to_checksum + length
            if offset != wanted or attribute != _PUT or found != names or stop > limit or length < least:
                break
            if timestamp != stamp:
                wheres += repeat(where, wanted - start - len(wheres))
                stamp, where = timestamp, Where(order, timestamp, mode, name, blank)
            is_small = verb == _ONE and length < SMALL_BYTES
            of_primary, kind_at, of_value = places[behind]
            body: Any = buffer[at:stop] if is_small else view[at:stop]
            checksum, offset, length, timestamp, attribute, found, verb, behind = next_of(buffer, stop)
            if checksum != crc32(body) or (is_shared and body[of_name] != namespace):
                break
            if is_small:
                kind = body[kind_at]
                if kind == BIN8:
                    add_value(body[of_value])
                elif kind == _BIN16:
                    add_value(body[kind_at + 3 :])
                else:
                    break
                add_primary(body[of_primary])
                wanted += 1
            else:
                items = _items(body[skip:])
                if not items:
                    break
                primaries += items[::2]
                values += items[1::2]
                wanted += len(items) // 2
            at = stop + 4
        wheres += repeat(where, wanted - start - len(wheres))
        return at, wanted, put_events(wheres, start, primaries, values)

    return decode_puts, ahead


def _places(primary: int) -> tuple[slice, int, slice]:
    """Where the primary key is that begins here, the type of the value behind it, and the value if it is BIN8."""
    end = primary + PRIMARY_BYTES
    return slice(primary, end), end, slice(end + 2, None)


def _items(packed: bytes | memoryview) -> list[bytes]:
    """The primary keys and values of an effect that is a put or puts; none of another, or of what is no effect (W2)."""
    try:
        verb, _, changes, *args = _unpackb(packed)
        items: list[bytes] = args if verb == _ONE else args[0] if verb == _MANY else args[2] if verb == _LOAD else []
        return items if len(items) == 2 * changes else []
    except (ValueError, TypeError, IndexError):
        return []
