"""
A record of the log, byte by byte (big-endian):

    offset u64 @0 | size u32 @8 | timestamp u64 @12 | attribute u8 @20
    | key length u32 | key (the namespace) | data length u32 | data

size counts what follows the attribute. Attribute: bits 0-1 mode (copy 0, sync 1, complete 2), bits 2-4 op, bit 5: the
data ends with a CRC-32 (zlib) of all bytes of the record before it. We always set it.

A decoder is total: any bytes give a Record or None, never an exception and never a record that was not written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple
from zlib import crc32

import msgpack

from journal.core.entry.effects import VERBS, Effect, from_list
from journal.errors import LogDamaged

HEAD = struct.Struct(">QIQBI")
_U32 = struct.Struct(">I")
_ARRAY32 = struct.Struct(">BI")
_pack_u32 = _U32.pack
HEAD_BYTES = 21
LENGTH_END = 12
"""Where the offset and the size of a record end."""
OVERHEAD = 29
SYNC_MODE = 1
CHECKED = 0x20
_ATTRIBUTES = {kind: (verb, CHECKED | SYNC_MODE | op << 2) for kind, (verb, op) in VERBS.items()}


class Record(NamedTuple):
    """One decoded record."""

    offset: int
    timestamp: int
    attribute: int
    namespace: bytes
    data: bytes
    end: int
    """Where the next record begins in the buffer that this one was decoded from."""

    @property
    def op(self) -> int:
        """insert 0, update 1, delete 2, command 3, noop 4, skip 5"""
        return self.attribute >> 2 & 7


Olds = list[bytes | None]
"""The packed data before each change of a record; None where there was none."""
WITH_OLD = 21
"""The verb of a record that has it: [olds, [verb, *effect]] follow, with the op of that verb."""


class Payload(NamedTuple):
    """What our own records hold."""

    behind: int
    changes: int
    effect: Effect
    olds: Olds | None = None


Encoder = Callable[[int, int, int, int, Effect], bytes]


def encoder(namespace: bytes, packer: msgpack.Packer | None = None) -> Encoder:
    """A function that makes the records of one namespace; for one thread at a time, also with others of that packer."""
    names = len(namespace)
    pack_head = struct.Struct(f">QIQBI{names}sI").pack
    # Making a packer for each record would cost twice the packing.
    pack: Callable[[Any], bytes] = (packer or msgpack.Packer(autoreset=True)).pack

    def encode(offset: int, timestamp: int, behind: int, count: int, effect: Effect) -> bytes:
        verb, attribute = _ATTRIBUTES[type(effect)]
        data = pack((verb, behind, count, *effect))
        size = len(data) + 4
        record = pack_head(offset, names + 8 + size, timestamp, attribute, names, namespace, size) + data
        return record + _pack_u32(crc32(record))

    return encode


def encoder_with_old(
    namespace: bytes, olds_of: Callable[[Effect], Olds | None], packer: msgpack.Packer | None = None
) -> Encoder:
    """The same for a log that keeps the data before a change; `olds_of` finds it."""
    usual = encoder(namespace, packer)
    pack: Callable[[Any], bytes] = (packer or msgpack.Packer(autoreset=True)).pack

    def encode(offset: int, timestamp: int, behind: int, count: int, effect: Effect) -> bytes:
        olds = olds_of(effect)
        if olds is None:
            return usual(offset, timestamp, behind, count, effect)
        verb, attribute = _ATTRIBUTES[type(effect)]
        data = pack((WITH_OLD, behind, count, olds, (verb, *effect)))
        size = len(data) + 4
        head = HEAD.pack(offset, len(namespace) + 8 + size, timestamp, attribute, len(namespace))
        record = head + namespace + _pack_u32(size) + data
        return record + _pack_u32(crc32(record))

    return encode


def extended(record: bytes, values: int, size: int) -> bytes:
    """
    How a record begins whose effect ends with so many values, in so many bytes, that are packed already.

    `record` is the one with an empty array in their place. What follows are the values and a checksum of all of it.
    """
    (names,) = _U32.unpack_from(record, HEAD_BYTES)
    start = HEAD_BYTES + 4 + names
    packed = record[start + 4 : -5] + _ARRAY32.pack(0xDD, values)
    size += len(packed) + 4
    return b"".join((record[:8], _pack_u32(names + 8 + size), record[12:start], _pack_u32(size), packed))


def decode(buffer: bytes, at: int = 0) -> Record | None:
    """The record at this place, or None when there is no whole one with a good checksum."""
    if len(buffer) - at < OVERHEAD:
        return None
    offset, size, timestamp, attribute, names = HEAD.unpack_from(buffer, at)
    end = at + HEAD_BYTES + size
    if end > len(buffer) or size < 8 + names:
        return None
    start = at + HEAD_BYTES + 4 + names
    (length,) = _U32.unpack_from(buffer, start)
    if start + 4 + length != end:
        return None
    if attribute & CHECKED:
        if length < 4 or _U32.unpack_from(buffer, end - 4)[0] != crc32(memoryview(buffer)[at : end - 4]):
            return None
        data = buffer[start + 4 : end - 4]
    else:
        data = buffer[start + 4 : end]
    return Record(offset, timestamp, attribute, buffer[at + HEAD_BYTES + 4 : start], data, end)


def payload(record: Record) -> Payload:
    """The effect of one of our records."""
    try:
        parts: list[Any] = msgpack.unpackb(record.data, strict_map_key=False)
        verb, behind, count, *args = parts
        olds = None
        if verb == WITH_OLD:
            olds, (verb, *args) = args
            if len(olds) != count:
                raise ValueError(f"{len(olds)} old values for {count} changes")
    except (ValueError, TypeError) as e:
        raise LogDamaged(f"the record at offset {record.offset} holds no effect: {e}") from e
    if type(behind) is not int or type(count) is not int or behind < 1 or count < 1:
        raise LogDamaged(f"the record at offset {record.offset} holds no effect: behind {behind!r}, count {count!r}")
    return Payload(behind, count, from_list(verb, args), olds)
