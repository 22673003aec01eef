"""Records of the log: the bytes of the format, and a decoder that is total."""

from __future__ import annotations

import struct
from typing import Any
from zlib import crc32

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.entry import effects as fx
from journal.core.log.record import CHECKED, Record, decode, encoder, payload
from journal.errors import LogDamaged

EFFECTS: list[fx.Effect] = [
    fx.PutEffect(b"p", b"v"),
    fx.PutsEffect([b"p", b"v", b"q", b"w"]),
    fx.Replace(b"o", b"p", b"v"),
    fx.Queue(b"s", b"v"),
    fx.Claim("c", 1, 2, 3, [b"p", "k", 1, 0, b"q", b"k", 2, 1]),
    fx.Done([b"p", "k", 3, None, None]),
    fx.Extend(b"p", "k", 3, 9, 2),
    fx.Release(b"o", 3, b"p", b"v"),
    fx.Timeout(b"p", b"k", 3, 2, 1),
    fx.Bury(b"o", 3, b"n", b"v", "k", 9, "timeouts", None, None),
    fx.RetryEffect(b"n", b"p", b"v"),
    fx.DeleteEffect(b"p", "k"),
    fx.Expire([b"p", "k"]),
    fx.Lower("timeouts"),
    fx.Unbury(b"n", "k"),
    fx.Group([[1, b"p", b"v"], [12, b"q", "k"]]),
    fx.Carry([b"p", b"v"], [b"p", b"l"], [b"n", b"v"], [b"s", b"v"]),
    fx.Raise("feed", "look", 9),
    fx.Skip(7),
    fx.Clear([b"p", "k"], [b"n"], ["timeouts"]),
    fx.LoadEffect("nightly", 7, [b"p", b"v", b"q", b"w"]),
    fx.LoadGroup("nightly", 7, [[1, b"p", b"v"], [12, b"q", "k"]]),
    fx.StepEffect(-3_600_000, 9, 12),
]
RECORD = encoder(b"pages")(5, 1_700_000_000_000, 2, 1, fx.PutEffect(b"p", b"value"))


def record_of(data: bytes) -> Record:
    return Record(0, 0, CHECKED, b"", data, 0)


def test_the_bytes_are_those_of_the_format() -> None:
    """offset u64, size u32, timestamp u64, attribute u8, key length u32, key, data length u32, data and its CRC."""
    data = msgpack.packb([1, 2, 1, b"p", b"value"])
    body = struct.pack(">QIQB", 5, 4 + 5 + 4 + len(data) + 4, 1_700_000_000_000, 0x20 | 1)
    body += struct.pack(">I", 5) + b"pages" + struct.pack(">I", len(data) + 4) + data
    assert body + struct.pack(">I", crc32(body)) == RECORD


@pytest.mark.parametrize("effect", EFFECTS, ids=[type(e).__name__ for e in EFFECTS])
def test_an_effect_is_read_back_as_written(effect: fx.Effect) -> None:
    """Every verb; its op is in the attribute and its changes are counted."""
    count = fx.changes(effect)
    found = decode(encoder(b"pages")(5, 9, 2, count, effect))
    assert found is not None
    assert (found.offset, found.timestamp, found.namespace, found.op) == (5, 9, b"pages", fx.VERBS[type(effect)][1])
    back = payload(found)
    assert (back.behind, back.changes, type(back.effect)) == (2, count, type(effect))
    assert msgpack.packb(back.effect) == msgpack.packb(effect)


def test_every_effect_has_a_number_of_its_own() -> None:
    """Numbers are never shared, and this suite knows all effects."""
    assert len({number for number, _ in fx.VERBS.values()}) == len(fx.VERBS)
    assert {type(effect) for effect in EFFECTS} == set(fx.VERBS)
    assert [fx.changes(e) for e in EFFECTS] == [1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 7, 3, 2, 2, 1]
    assert fx.changes(fx.LoadGroup("nightly", 7, [])) == 1


def test_a_record_that_is_cut_short_is_none() -> None:
    """Every prefix."""
    assert decode(RECORD) is not None
    assert [size for size in range(len(RECORD)) if decode(RECORD[:size]) is not None] == []


def test_a_flipped_bit_is_none_or_leaves_no_wrong_record() -> None:
    """Each bit; only the one that says "no checksum" can hide the checksum, and recovery demands ours."""
    whole = decode(RECORD)
    for at in range(len(RECORD)):
        for bit in range(8):
            rotten = bytearray(RECORD)
            rotten[at] ^= 1 << bit
            found = decode(bytes(rotten))
            if at == 20 and 1 << bit == CHECKED:
                assert found is not None and not found.attribute & CHECKED
            else:
                assert found is None, (at, bit)
    assert decode(RECORD) == whole


def test_records_without_a_checksum_can_be_read() -> None:
    """Files of the older format have no CRC: their data is whole."""
    body = struct.pack(">QIQBI", 1, 4 + 2 + 4 + 3, 7, 0, 2) + b"ns" + struct.pack(">I", 3) + b"abc"
    assert decode(body) == Record(1, 7, 0, b"ns", b"abc", len(body))


def test_records_follow_each_other() -> None:
    """The end of one is the beginning of the next, wherever in the buffer."""
    encode = encoder(b"pages")
    first, second = (encode(i, 9, 1, 1, fx.Lower(str(i))) for i in range(2))
    buffer = b"??" + first + second
    one = decode(buffer, 2)
    assert one is not None and one.end == 2 + len(first)
    two = decode(buffer, one.end)
    assert two is not None and (two.offset, two.end) == (1, len(buffer))
    assert decode(buffer, two.end) is None


@given(st.binary(max_size=120), st.integers(0, 130))
def test_the_decoder_is_total(buffer: bytes, at: int) -> None:
    """Any bytes give a record or None, never an exception."""
    found = decode(buffer, at)
    assert found is None or found.end <= len(buffer)


@given(st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1), st.binary(max_size=60))
def test_lengths_that_lie_are_none(size: int, names: int, rest: bytes) -> None:
    """Lengths are compared with each other and with the buffer before anything is read by them."""
    buffer = struct.pack(">QIQBI", 0, size, 0, CHECKED, names) + rest
    assert decode(buffer) is None or crc32(buffer[:-4]) == struct.unpack(">I", buffer[-4:])[0]


@pytest.mark.parametrize(
    "parts", [[], [1], [1, 1], [1, 1, 1], [99, 1, 1, b"p", b"v"], [1, 1, 1, b"p"], [1, 0, 1, b"p", b"v"],
              [1, 1, 0, b"p", b"v"], [1, "1", 1, b"p", b"v"], [1, 1, None, b"p", b"v"], [[], 1, 1], 5, "text", None, {}],
    ids=repr,
)  # fmt: skip
def test_a_payload_that_is_no_effect_is_damage(parts: Any) -> None:
    """An unknown verb, parts that are missing, a behind or a count that cannot be."""
    with pytest.raises(LogDamaged):
        payload(record_of(msgpack.packb(parts)))


@given(st.binary(max_size=60))
def test_any_payload_is_an_effect_or_damage(data: bytes) -> None:
    """The decoder of payloads raises LogDamaged and nothing else."""
    try:
        payload(record_of(data))
    except LogDamaged:
        pass
