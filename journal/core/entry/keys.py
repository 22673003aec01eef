"""
The keys of an entry: the user's key, its murmur, its slot and its primary key.

    slot         murmur 16 B | ordinal u8                          (0 unless murmurs collide)
    place        priority u8 | process date u64 | turn u64         (big-endian, so that bytes sort as the numbers do)
    primary key  place | slot                                      34 bytes, sorts in the order of work
    bound        priority u8 | process date u64                    before all places of this priority and date

`turn` is where in the log the entry got this place (cursor.py: `at`, which grows over all generations). So entries of one
priority and one date stand in the order in which they came there.

K1  Two user keys are equal only if they are of one type (text or bytes) and equal byte for byte; a murmur never decides.
K2  A key keeps its slot as long as an entry or a successor of it exists.
K3  All index keys of an entry are made here and nowhere else, and what is where in them is said here.
"""

from __future__ import annotations

import struct

import mmh3

from journal.core.limits import KEY_BYTES_MAX
from journal.errors import Invalid

UserKey = str | bytes

SLOT_BYTES = 17
PLACE_BYTES = 17
PRIMARY_BYTES = PLACE_BYTES + SLOT_BYTES
DATE_AT, TURN_AT, SLOT_AT, ORDINAL_AT = 1, 9, PLACE_BYTES, PRIMARY_BYTES - 1
"""Where these begin in a primary key."""
BEHIND_ALL = b"\xff" * (PRIMARY_BYTES + 1)
"""Behind all primary keys."""
_PLACE = struct.Struct(">BQQ")
_BOUND = struct.Struct(">BQ")
_U64 = struct.Struct(">Q")
_U16 = struct.Struct(">H")
murmur = mmh3.mmh3_x64_128_digest
pack_place = _PLACE.pack
"""Of a priority, a process date and a turn."""
pack_bound = _BOUND.pack
unpack_place = _BOUND.unpack_from
"""Priority and process date of a place, a bound or a primary key."""


def key_bytes(key: UserKey) -> bytes:
    """The bytes of a user key, checked (K1)."""
    if type(key) is str:
        try:
            raw = key.encode()
        except UnicodeEncodeError as e:
            raise Invalid(f"the key {key!r} has lone surrogates: use bytes for a key that is not text") from e
    elif type(key) is bytes:
        raw = key
    else:
        raise Invalid(f"a key is str or bytes, not {type(key).__name__}")
    if not 0 < len(raw) <= KEY_BYTES_MAX:
        raise Invalid(f"a key has 1 to {KEY_BYTES_MAX} bytes, this one has {len(raw)}")
    return raw


def primary_key(priority: int, process_date: int, turn: int, slot: bytes) -> bytes:
    """The place of an entry in the order of work."""
    return pack_place(priority, process_date, turn) + slot


def primary_of(bound: bytes, turn: int, slot: bytes) -> bytes:
    """The same from a priority and a process date that are packed already."""
    return bound + _U64.pack(turn) + slot


def turn_of(primary: bytes) -> int:
    """The turn in a primary key."""
    turn: int = _U64.unpack_from(primary, TURN_AT)[0]
    return turn


def expiration_key(expiration: int, primary: bytes) -> bytes:
    """The place of a waiting entry in the order of expiry."""
    return _U64.pack(expiration) + primary


def owner_key(owner: bytes, primary: bytes) -> bytes:
    """The place of an entry among those of its producer group; with b"" what all of these begin with."""
    return bytes((len(owner),)) + owner + primary


def owner_in(name: bytes) -> bytes:
    """The producer group that a place of `owner_key` belongs to."""
    return name[1 : 1 + name[0]]


def bucket_key(bucket: int, primary: bytes) -> bytes:
    """The place of an entry among those of its bucket."""
    return _U16.pack(bucket) + primary


def buried_key(slot: bytes, at: int) -> bytes:
    """A buried entry: the place of the record that buried it, then its murmur. So they stand in the order of burial."""
    return _U64.pack(at) + slot[:16]


def grave_key(name: bytes) -> bytes:
    """The place of a buried entry, which has this `buried_key`, among those of its murmur."""
    return name[8:] + name[:8]


def buried_in(grave: bytes) -> bytes:
    """The `buried_key` of a `grave_key`."""
    return grave[16:] + grave[:16]
