"""Ranges of primary keys: a selection holds exactly what was asked for, and its parts hold together what it holds."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.entry.keys import BEHIND_ALL, PRIMARY_BYTES, pack_bound, primary_key
from journal.core.entry.rows import encode_entry
from journal.core.snapshot_blocks import (
    KeyRange,
    bounds,
    checked_ranges,
    parts_number,
    remaining,
    selected,
    split,
    verify,
)
from journal.errors import Invalid, StoreDamaged

DATES = st.integers(0, 20) | st.just((1 << 63) - 1)
SLOTS = st.binary(min_size=17, max_size=17)
TURNS = st.sampled_from([0, 1, 1 << 40, (1 << 64) - 1])
KEYS = st.builds(primary_key, st.sampled_from([0, 1, 2, 100, 254, 255]), DATES, TURNS, SLOTS)


def holds(ranges: list[KeyRange] | tuple[KeyRange, ...], key: bytes) -> int:
    return sum(low <= key < high for low, high in ranges)


@given(
    st.lists(KEYS),
    st.none() | DATES,
    st.none() | DATES,
    st.none() | st.lists(st.integers(0, 255) | st.sampled_from([0, 1, 2, 100, 254, 255])),
)
def test_a_selection_holds_what_was_asked_for(
    keys: list[bytes], since: int | None, until: int | None, priorities: list[int] | None
) -> None:
    """Each wanted key once, no other one (K1)."""
    ranges = selected(since, until, priorities)
    assert ranges == sorted(ranges) and ranges == checked_ranges(ranges)
    for key in keys:
        date = int.from_bytes(key[1:9])
        is_wanted = (since is None or date >= since) and (until is None or date < until)
        is_wanted = is_wanted and (priorities is None or key[0] in priorities)
        assert holds(ranges, key) == is_wanted


@given(st.lists(KEYS), st.lists(KEYS), st.integers(1, 12), st.none() | DATES, st.none() | st.lists(st.integers(0, 255)))
def test_parts_hold_together_what_the_selection_holds(
    keys: list[bytes], samples: list[bytes], count: int, since: int | None, priorities: list[int] | None
) -> None:
    """Whatever keys it is split at: each key in one part, the parts in order, never more than asked for (K2)."""
    ranges = selected(since, None, priorities)
    parts = split(ranges, bounds(sorted(samples), count))
    assert 1 <= len(parts) <= count
    assert all(part for part in parts) or parts == [()]
    for key in keys:
        assert sum(holds(part, key) for part in parts) == holds(ranges, key)
    assert [each for part in parts for each in part] == sorted(each for part in parts for each in part)


@given(st.lists(KEYS, min_size=1), KEYS)
def test_what_remains_comes_after_a_key(keys: list[bytes], after: bytes) -> None:
    """For a reader that goes on."""
    ranges = selected(1, 15, [0, 1, 100, 255])
    for key in keys:
        assert holds(remaining(ranges, after), key) == (holds(ranges, key) and key > after)


def test_a_selection_without_dates_is_one_range() -> None:
    """And neighbouring priorities are one, too."""
    assert selected(None, None, None) == [(b"\0", BEHIND_ALL)]
    assert selected(None, None, (7, 5, 6, 6, 9)) == [(b"\5", b"\x08"), (b"\x09", b"\x0a")]
    assert selected(None, None, []) == [] and selected(5, 5, None) == []
    aware = dt.datetime.fromtimestamp(1, dt.UTC)
    assert selected(aware, None, [3]) == [(pack_bound(3, 1000), pack_bound(3, 1 << 63))]


@pytest.mark.parametrize("priorities", [[256], [-1], ["1"], [True], 5])
def test_priorities_are_checked(priorities: object) -> None:
    """Bytes, nothing else."""
    with pytest.raises(Invalid):
        selected(None, None, priorities)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, -1, 1 << 17, 1.0, "2", True])
def test_the_number_of_parts_is_checked(count: object) -> None:
    """An int, within limits."""
    with pytest.raises(Invalid):
        parts_number(count)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ranges",
    [None, b"", [b"ab"], [(b"a",)], [("a", "b")], [(b"b", b"a")], [(b"a", b"a")], [(b"b", b"c"), (b"a", b"z")],
     [(b"a", b"c" * 36)], [(bytes((n,)), bytes((n, 1))) for n in range(256)] + [(b"\xff\2", b"\xff\3")]],
)  # fmt: skip
def test_ranges_of_others_are_checked(ranges: object) -> None:
    """Pairs of keys, in order, without anything in common."""
    with pytest.raises(Invalid):
        checked_ranges(ranges)


@given(st.integers(0, 2), st.integers(0, 200), st.integers(1, 255))
def test_a_changed_byte_is_damage(which: int, at: int, flip: int) -> None:
    """In the key or in the entry; and so is a row that was cut short (rows R1)."""
    primaries = [primary_key(100, 5, n, bytes((n,)) * 17) for n in range(3)]
    values = [encode_entry(key, 1, 2, 3, 4, 5, 6, b"own", "name", b"\xc4\x05hello") for key in primaries]
    verify(primaries, values)
    verify([], [])
    row = bytearray(primaries[which] + values[which])
    row[at % len(row)] ^= flip
    broken = list(values), list(primaries)
    broken[0][which], broken[1][which] = bytes(row[PRIMARY_BYTES:]), bytes(row[:PRIMARY_BYTES])
    with pytest.raises(StoreDamaged):
        verify(broken[1], broken[0])
    values[which] = values[which][: at % len(values[which])]
    with pytest.raises(StoreDamaged):
        verify(primaries, values)
