"""
The rows as bytes: what LMDB and the log hold of an entry. The format first (all big-endian):

    entry      crc u32 | insertion u64 | expiration u64 | accepted u64 | at u64 | version u32 | timeouts u8
               | owner length u8 | key length u16 (bit 15: bytes, not text) | owner | key | data (msgpack)
    lease      crc u32 | status u8 'P'/'W' | version u32 | timeouts u8 | start u64 | deadline u64 | token u64 | at u64
               | consumer (utf-8)
    successor  place 17 | entry
    buried     crc u32 | date u64 | reason length u16 | reason | primary key 34 | entry

R1  A crc (zlib CRC-32) covers the primary key (for buried: its own) and all bytes after it: LMDB has no checksums, so
    a row that rotted is named as damage and never served.
R2  `accepted` is the insertion date of the last put that was accepted; `insertion` that of the first.
R3  `at` is the offset of the record that wrote the row: a row whose record is not yet durable can be told.
R4  version and timeouts of an entry count unless it has a lease row, whose own then count.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple
from zlib import crc32

import msgpack

from journal.core.entry.keys import PLACE_BYTES, PRIMARY_BYTES, UserKey, pack_place, unpack_place
from journal.errors import Invalid, StoreDamaged

_ENTRY = struct.Struct(">QQQQIBBH")
_LEASE = struct.Struct(">BIBQQQQ")
_BURIED = struct.Struct(">QH")
_CRC = struct.Struct(">I")
_HEAD = 4 + _ENTRY.size
_LEASE_HEAD = 4 + _LEASE.size
ENTRY_HEAD, OWNER_AT, KEY_HIGH_AT, KEY_LOW_AT = _HEAD, _HEAD - 3, _HEAD - 2, _HEAD - 1
"""Where the owner of an entry begins, and the lengths of owner and key are; for code that reads them at each change."""
_IS_BYTES = 0x8000
_entry_pack = _ENTRY.pack
_entry_unpack = _ENTRY.unpack_from
_lease_pack = _LEASE.pack
_crc_pack = _CRC.pack
_crc_unpack = _CRC.unpack_from

WAITING = ord("W")
PROCESSING = ord("P")

_new = tuple.__new__  # a NamedTuple without the call of its __new__, a Python function
_PLAIN = frozenset((bytes, str, int, float, bool, type(None)))
BIN8 = 0xC4
"""The first byte of packed bytes up to 255; their length follows."""
_BIN8 = bytes((BIN8,))
_BINARY = [_BIN8 + bytes((size,)) for size in range(256)]
_packb = msgpack.packb
_unpackb = msgpack.unpackb


class Row(NamedTuple):
    """An entry as it is stored. `data` is still packed: rules never look into it."""

    primary: bytes
    insertion: int
    expiration: int
    accepted: int
    at: int
    version: int
    timeouts: int
    owner: bytes
    key: UserKey
    data: bytes


class LeaseRow(NamedTuple):
    """The mutable part of an entry that was claimed."""

    status: int
    version: int
    timeouts: int
    start: int
    deadline: int
    token: int
    at: int
    consumer: str


class BuriedRow(NamedTuple):
    """An entry that was given up on."""

    date: int
    reason: str
    row: Row


def pack_data(data: Any) -> bytes:
    """The msgpack bytes of user data; refuses what could not be read back."""
    if type(data) is bytes:
        size = len(data)
        if size < 256:
            return _BINARY[size] + data
    try:
        packed: bytes = _packb(data)
        if type(data) not in _PLAIN:
            # A map with a list as a key packs, but does not unpack: it would be an unreadable row.
            _unpackb(packed, strict_map_key=False)
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeEncodeError) as e:
        raise Invalid(f"the data is not a msgpack value: {e}") from e
    return packed


def unpack_data(packed: bytes) -> Any:
    """The user data of its msgpack bytes."""
    if packed[:1] == _BIN8:
        return packed[2:]
    return _unpackb(packed, strict_map_key=False)


def encode_entry(
    primary: bytes,
    insertion: int,
    expiration: int,
    accepted: int,
    at: int,
    version: int,
    timeouts: int,
    owner: bytes,
    key: UserKey,
    data: bytes,
) -> bytes:
    """The bytes of an entry row."""
    if isinstance(key, str):
        raw = key.encode()
        size = len(raw)
    else:
        raw = key
        size = len(raw) | _IS_BYTES
    body = _entry_pack(insertion, expiration, accepted, at, version, timeouts, len(owner), size) + owner + raw + data
    return _crc_pack(crc32(primary + body)) + body


def encode_new(
    primary: bytes,
    insertion: int,
    expiration: int,
    accepted: int,
    at: int,
    owner: bytes,
    raw: bytes,
    size: int,
    data: bytes,
) -> bytes:
    """The bytes of a new entry; `size` is what `key_size` gives for its key."""
    body = _entry_pack(insertion, expiration, accepted, at, 1, 0, len(owner), size) + owner + raw + data
    return _crc_pack(crc32(primary + body)) + body


def encode_usual(primary: bytes, now: int, at: int, raw: bytes, data: bytes) -> bytes:
    """The bytes of a new entry with a text key and no options, due now."""
    body = _entry_pack(now, 0, now, at, 1, 0, 0, len(raw)) + raw + data
    return _crc_pack(crc32(primary + body)) + body


def encode_plain(
    items: list[tuple[int, bytes, bytes]], slots: list[bytes], now: int, at: int
) -> list[tuple[bytes, bytes]]:
    """The primary keys and bytes of new entries (priority, text key, data) that are due now, the first written at `at`."""
    made = []
    for (priority, raw, data), slot in zip(items, slots, strict=True):
        primary = pack_place(priority, now, at) + slot
        body = _entry_pack(now, 0, now, at, 1, 0, 0, len(raw)) + raw + data
        made.append((primary, _crc_pack(crc32(primary + body)) + body))
        at += 1
    return made


def key_size(key: UserKey, raw: bytes) -> int:
    """The key length field of an entry."""
    return len(raw) if type(key) is str else len(raw) | _IS_BYTES


def encode_row(row: Row) -> bytes:
    """The bytes of a row."""
    return encode_entry(*row)


def decode_entry(primary: bytes, value: bytes) -> Row:
    """The row of its bytes, its checksum verified (R1)."""
    if len(value) < _HEAD or _crc_unpack(value)[0] != crc32(primary + value[4:]):
        raise StoreDamaged(f"the entry at primary key {primary.hex()} does not match its checksum: run `journal check`")
    insertion, expiration, accepted, at, version, timeouts, owner_size, size = _entry_unpack(value, 4)
    start = _HEAD + owner_size
    if size & _IS_BYTES:
        end = start + (size ^ _IS_BYTES)
        key: UserKey = value[start:end]
    else:
        end = start + size
        key = value[start:end].decode()
    return _new(
        Row, (primary, insertion, expiration, accepted, at, version, timeouts, value[_HEAD:start], key, value[end:])
    )


def entry_key(value: bytes) -> UserKey:
    """The key in the bytes of an entry. Its checksum is not verified here: another checksum has covered the bytes."""
    start = ENTRY_HEAD + value[OWNER_AT]
    size = value[KEY_HIGH_AT] << 8 | value[KEY_LOW_AT]
    if size & _IS_BYTES:
        return value[start : start + (size ^ _IS_BYTES)]
    return value[start : start + size].decode()


def entry_data(value: bytes) -> Any:
    """The user data in the bytes of an entry. Its checksum is not verified here: another checksum has covered the bytes."""
    size = value[KEY_HIGH_AT] << 8 | value[KEY_LOW_AT]
    return unpack_data(value[ENTRY_HEAD + value[OWNER_AT] + (size & ~_IS_BYTES) :])


def entry_columns(value: bytes) -> tuple[int, int, int, int, bytes]:
    """Insertion date, expiration, version, timeouts and owner in the bytes of an entry, covered as before."""
    insertion, expiration, _, _, version, timeouts, owner_size, _ = _entry_unpack(value, 4)
    return insertion, expiration, version, timeouts, value[_HEAD : _HEAD + owner_size]


def encode_lease(
    primary: bytes,
    status: int,
    version: int,
    timeouts: int,
    start: int,
    deadline: int,
    token: int,
    at: int,
    consumer: bytes,
) -> bytes:
    """The bytes of a lease row."""
    body = _lease_pack(status, version, timeouts, start, deadline, token, at) + consumer
    return _crc_pack(crc32(body, crc32(primary))) + body


def decode_lease(primary: bytes, value: bytes) -> LeaseRow:
    """The lease row of its bytes, its checksum verified (R1)."""
    if len(value) < _LEASE_HEAD or _crc_unpack(value)[0] != crc32(value[4:], crc32(primary)):
        raise StoreDamaged(f"the lease of primary key {primary.hex()} does not match its checksum: run `journal check`")
    status, version, timeouts, start, deadline, token, at = _LEASE.unpack_from(value, 4)
    return LeaseRow(status, version, timeouts, start, deadline, token, at, value[_LEASE_HEAD:].decode())


def encode_successor(row: Row) -> bytes:
    """The bytes of a successor: its place, then the row."""
    return row.primary[:PLACE_BYTES] + encode_row(row)


def decode_successor(slot: bytes, value: bytes) -> Row:
    """The successor of the key in this slot."""
    if len(value) < PLACE_BYTES:
        raise StoreDamaged(f"the successor in slot {slot.hex()} is cut short: run `journal check`")
    return decode_entry(value[:PLACE_BYTES] + slot, value[PLACE_BYTES:])


def encode_buried(name: bytes, buried: BuriedRow) -> bytes:
    """The bytes of a buried entry; `name` is its key in the sub-database."""
    reason = buried.reason.encode()
    body = _BURIED.pack(buried.date, len(reason)) + reason + buried.row.primary + encode_row(buried.row)
    return _crc_pack(crc32(body, crc32(name))) + body


def decode_buried(name: bytes, value: bytes) -> BuriedRow:
    """The buried entry of its bytes, its checksum verified (R1)."""
    if len(value) < 14 or _crc_unpack(value)[0] != crc32(value[4:], crc32(name)):
        raise StoreDamaged(f"the buried entry {name.hex()} does not match its checksum: run `journal check`")
    date, size = _BURIED.unpack_from(value, 4)
    start = 14 + size
    primary = value[start : start + PRIMARY_BYTES]
    return BuriedRow(date, value[14:start].decode(), decode_entry(primary, value[start + PRIMARY_BYTES :]))


def place(primary: bytes) -> tuple[int, int]:
    """Priority and process date of a primary key."""
    return unpack_place(primary)


def at_place(primary: bytes, priority: int, process_date: int, turn: int) -> bytes:
    """The primary key of the same slot at another place."""
    return pack_place(priority, process_date, turn) + primary[PLACE_BYTES:]
