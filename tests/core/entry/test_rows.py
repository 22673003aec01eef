"""Rows: read back as written; a bit that flips or a byte that is missing is named as damage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.entry.rows import (
    PROCESSING,
    WAITING,
    BuriedRow,
    LeaseRow,
    Row,
    decode_buried,
    decode_entry,
    decode_lease,
    decode_successor,
    encode_buried,
    encode_lease,
    encode_row,
    encode_successor,
    pack_data,
    unpack_data,
)
from journal.errors import Invalid, StoreDamaged
from tests.core.rows_of import NOW, SLOT, row

U64 = st.integers(0, (1 << 63) - 1)
ROWS = st.builds(
    row,
    priority=st.integers(0, 255),
    date=U64,
    insertion=U64,
    expiration=U64,
    accepted=U64,
    at=U64,
    version=st.integers(0, (1 << 32) - 1),
    timeouts=st.integers(0, 255),
    owner=st.binary(max_size=255),
    key=st.one_of(st.text(min_size=1, max_size=40), st.binary(min_size=1, max_size=1024)),
    data=st.binary(max_size=60),
)


def lease_bytes(primary: bytes) -> bytes:
    return encode_lease(primary, PROCESSING, 3, 2, NOW, NOW + 5, 1 << 40, 9, b"backend")


@given(ROWS)
def test_an_entry_is_read_back_as_written(written: Row) -> None:
    """Every column, text and bytes keys told apart."""
    back = decode_entry(written.primary, encode_row(written))
    assert back == written
    assert type(back.key) is type(written.key)


def test_a_lease_is_read_back_as_written() -> None:
    """Every column of the mutable part."""
    primary = row().primary
    assert decode_lease(primary, lease_bytes(primary)) == LeaseRow(
        PROCESSING, 3, 2, NOW, NOW + 5, 1 << 40, 9, "backend"
    )
    worn = encode_lease(primary, WAITING, 1, 255, 0, 0, 0, 0, b"")
    assert decode_lease(primary, worn).status == WAITING


def test_a_successor_is_read_back_with_its_place() -> None:
    """Its slot is the key of the sub-database, its place is in the value."""
    waiting = row(priority=3, date=NOW + 9)
    assert decode_successor(SLOT, encode_successor(waiting)) == waiting


def test_a_buried_entry_is_read_back_with_its_reason() -> None:
    """Date, reason and the row under its own primary key."""
    buried = BuriedRow(NOW, "unreadable – ½", row(owner=b"group"))
    assert decode_buried(b"name", encode_buried(b"name", buried)) == buried


DECODERS: list[tuple[str, Callable[[bytes], Any], bytes]] = [
    ("entry", lambda value: decode_entry(row().primary, value), encode_row(row(owner=b"o"))),
    ("lease", lambda value: decode_lease(row().primary, value), lease_bytes(row().primary)),
    ("successor", lambda value: decode_successor(SLOT, value), encode_successor(row())),
    ("buried", lambda value: decode_buried(b"n", value), encode_buried(b"n", BuriedRow(NOW, "why", row()))),
]


@pytest.mark.parametrize(("name", "decode", "value"), DECODERS, ids=[d[0] for d in DECODERS])
def test_a_row_that_is_cut_short_is_damage(name: str, decode: Callable[[bytes], Any], value: bytes) -> None:
    """Every prefix of it, and anything appended to it."""
    decode(value)
    for size in range(len(value)):
        with pytest.raises(StoreDamaged):
            decode(value[:size])
    with pytest.raises(StoreDamaged):
        decode(value + b"\0")


@pytest.mark.parametrize(("name", "decode", "value"), DECODERS, ids=[d[0] for d in DECODERS])
def test_a_flipped_bit_is_damage(name: str, decode: Callable[[bytes], Any], value: bytes) -> None:
    """Each single bit of each row; the checksum's own too."""
    for at in range(len(value)):
        for bit in range(8):
            rotten = bytearray(value)
            rotten[at] ^= 1 << bit
            with pytest.raises(StoreDamaged):
                decode(bytes(rotten))


@given(st.binary(max_size=200))
def test_any_bytes_are_damage_and_nothing_worse(value: bytes) -> None:
    """A decoder raises StoreDamaged, whatever it is fed."""
    for _, decode, _ in DECODERS:
        with pytest.raises(StoreDamaged):
            decode(value)


def test_a_value_under_another_key_is_damage() -> None:
    """A row that ended up in another's place is not served."""
    with pytest.raises(StoreDamaged):
        decode_entry(row(priority=1).primary, encode_row(row(priority=2)))
    with pytest.raises(StoreDamaged):
        decode_lease(row(priority=1).primary, lease_bytes(row(priority=2).primary))
    with pytest.raises(StoreDamaged):
        decode_buried(b"other", encode_buried(b"name", BuriedRow(NOW, "", row())))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(0, 9), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_data_is_read_back_as_given(value: Any) -> None:
    """Any msgpack value, text apart from bytes."""
    assert unpack_data(pack_data(value)) == value


@pytest.mark.parametrize(
    "value",
    [{1, 2}, object(), 1 << 64, -(1 << 63) - 1, {(1, 2): 3}, {"a": {(): 1}}, [{1}], "\ud800", {"\ud800": 1}, 1j, len],
    ids=lambda value: type(value).__name__,
)
def test_what_could_not_be_read_back_is_refused(value: Any) -> None:
    """Invalid, before anything is stored."""
    with pytest.raises(Invalid):
        pack_data(value)


def test_data_that_is_nested_too_deeply_is_refused() -> None:
    """Neither a crash nor a row that nobody can read; what contains itself too."""
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    endless: list[Any] = []
    endless.append(endless)
    for value in (deep, endless, {"a": deep}):
        with pytest.raises(Invalid):
            pack_data(value)


@pytest.mark.parametrize("depth", range(300, 1100, 25))
def test_what_packs_can_be_unpacked(depth: int) -> None:
    """Whatever the depth at which packing gives up, nothing is stored that cannot be read."""
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    try:
        packed = pack_data(value)
    except Invalid:
        return
    back = unpack_data(packed)
    for _ in range(depth):  # by hand: comparing such values would itself recurse
        back = back["a"]
    assert back == 1
