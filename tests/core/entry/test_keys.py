"""Keys: what may be one, and that index keys sort as the order of work does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.entry.keys import (
    BEHIND_ALL,
    PLACE_BYTES,
    PRIMARY_BYTES,
    SLOT_AT,
    SLOT_BYTES,
    bucket_key,
    buried_in,
    buried_key,
    expiration_key,
    grave_key,
    key_bytes,
    murmur,
    owner_key,
    pack_bound,
    primary_key,
    primary_of,
    turn_of,
)
from journal.core.entry.rows import at_place, place
from journal.errors import Invalid
from tests.crash.collide import twin

PRIMARIES = st.binary(min_size=PRIMARY_BYTES, max_size=PRIMARY_BYTES)
PLACES = st.tuples(st.integers(0, 255), st.integers(0, (1 << 63) - 1), st.integers(0, (1 << 64) - 1))


@pytest.mark.parametrize(
    ("key", "raw"), [("a", b"a"), (b"a", b"a"), ("é", b"\xc3\xa9"), ("\0", b"\0"), (b"\xff", b"\xff")]
)
def test_text_and_bytes_are_keys(key: str | bytes, raw: bytes) -> None:
    """A key is kept byte for byte."""
    assert key_bytes(key) == raw


def test_a_key_has_one_byte_to_one_kibibyte() -> None:
    """The limit is in bytes, not characters."""
    assert len(key_bytes("é" * 512)) == 1024
    assert key_bytes(bytes(1024)) == bytes(1024)
    for wrong in ("", b"", "a" * 1025, bytes(1025), "é" * 513):
        with pytest.raises(Invalid):
            key_bytes(wrong)


@pytest.mark.parametrize("wrong", [None, 1, 1.5, ["a"], ("a",), bytearray(b"a"), memoryview(b"a"), "\ud800"])
def test_anything_else_is_refused(wrong: object) -> None:
    """Neither numbers nor other buffers nor text that is not text."""
    with pytest.raises(Invalid):
        key_bytes(wrong)  # type: ignore[arg-type]


@given(a=PLACES, b=PLACES, slots=st.tuples(st.binary(min_size=17, max_size=17), st.binary(min_size=17, max_size=17)))
def test_primary_keys_sort_in_the_order_of_work(
    a: tuple[int, int, int], b: tuple[int, int, int], slots: tuple[bytes, bytes]
) -> None:
    """Priority, then process date, then the turn, then the slot; whatever the numbers."""
    one, two = primary_key(*a, slots[0]), primary_key(*b, slots[1])
    assert len(one) == PRIMARY_BYTES == PLACE_BYTES + SLOT_BYTES
    assert (one < two) == ((*a, slots[0]) < (*b, slots[1]))
    assert (place(one), turn_of(one), one[SLOT_AT:]) == (a[:2], a[2], slots[0])
    assert primary_of(pack_bound(*a[:2]), a[2], slots[0]) == one
    assert (pack_bound(*b[:2]) <= one) == (b[:2] <= a[:2])
    assert one < BEHIND_ALL


@given(a=PLACES, b=PLACES)
def test_another_place_keeps_the_slot(a: tuple[int, int, int], b: tuple[int, int, int]) -> None:
    """A move changes nothing but the place."""
    slot = bytes(range(17))
    assert at_place(primary_key(*a, slot), *b) == primary_key(*b, slot)


@given(a=st.integers(0, (1 << 64) - 1), b=st.integers(0, (1 << 64) - 1))
def test_expirations_sort_by_date(a: int, b: int) -> None:
    """The head of the index expires first."""
    primary = bytes(PRIMARY_BYTES)
    assert (expiration_key(a, primary) < expiration_key(b, primary)) == (a < b)


@given(
    a=st.text(min_size=1, max_size=8).map(str.encode),
    b=st.text(min_size=1, max_size=8).map(str.encode),
    primaries=st.tuples(
        st.binary(min_size=PRIMARY_BYTES, max_size=PRIMARY_BYTES),
        st.binary(min_size=PRIMARY_BYTES, max_size=PRIMARY_BYTES),
    ),
)
def test_owners_never_run_into_each_other(a: bytes, b: bytes, primaries: tuple[bytes, bytes]) -> None:
    """One index key for one owner and entry, although owners have any length."""
    same = owner_key(a, primaries[0]) == owner_key(b, primaries[1])
    assert same == ((a, primaries[0]) == (b, primaries[1]))


def test_buried_keys_are_in_the_order_of_burial() -> None:
    """And by the murmur they are found: one that was buried twice has two rows, the older one first."""
    slot, other = bytes(range(17)), bytes(17)
    names = [buried_key(slot, 1), buried_key(other, 2), buried_key(slot, 256)]
    assert names == sorted(names)
    graves = sorted(map(grave_key, names))
    assert [grave[:16] for grave in graves] == [other[:16], slot[:16], slot[:16]]
    assert list(map(buried_in, graves)) == [names[1], names[0], names[2]]


def test_murmurs_can_be_made_to_collide() -> None:
    """The reason why whole keys are compared: two keys, one murmur."""
    key = bytes(range(32))
    assert twin(key) != key
    assert murmur(twin(key)) == murmur(key)
    assert murmur(b"") == bytes(16)
    assert murmur(b"hello").hex() == "029bbd41b3a7d8cb191dae486a901e5b"


def test_bucket_keys_sort_by_bucket_then_place() -> None:
    """So each bucket is a stretch of the index, in the order of work."""
    places = [bytes((priority,)) + bytes(PRIMARY_BYTES - 1) for priority in (0, 7, 255)]
    keys = [bucket_key(bucket, place) for bucket in (0, 1, 255, 256, 65535) for place in places]
    assert keys == sorted(keys)
    assert {len(key) for key in keys} == {2 + PRIMARY_BYTES}
