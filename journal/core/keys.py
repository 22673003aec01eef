"""
The keys of an entry: the user's key, its murmur, its slot and its primary key.

    slot         murmur 16 B | ordinal u8                          (0 unless murmurs collide)
    primary key  priority u8 | process date u64 BE | slot          26 bytes, sorts in the order of work

K1  Two user keys are equal only if they are of one type (text or bytes) and equal byte for byte; a murmur never decides.
K2  A key keeps its slot as long as an entry or a successor of it exists.
K3  All index keys of an entry are made here and nowhere else.
"""

from __future__ import annotations

import struct

import mmh3

from journal.core.limits import KEY_BYTES_MAX
from journal.errors import Invalid

UserKey = str | bytes

MURMUR_BYTES = 16
SLOT_BYTES = 17
PRIMARY_BYTES = 26
_PLACE = struct.Struct(">BQ")
_U64 = struct.Struct(">Q")
_U16 = struct.Struct(">H")
murmur = mmh3.mmh3_x64_128_digest
pack_place = _PLACE.pack
unpack_place = _PLACE.unpack_from


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


def primary_key(priority: int, process_date: int, slot: bytes) -> bytes:
    """The place of an entry in the order of work."""
    return pack_place(priority, process_date) + slot


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


def buried_key(slot: bytes, offset: int) -> bytes:
    """A buried entry: its murmur, then the offset of the record that buried it (a key may be buried twice)."""
    return slot[:16] + _U64.pack(offset)
