"""Checksums that are corrected, not computed anew: those of zlib."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy", reason="pip install 'journal[spark]'")

from journal.engine.loads.crc import SHIFT_MAX, Shifts, added, field_tables  # noqa: E402 - needs numpy

U64 = st.integers(0, (1 << 64) - 1)


@given(st.lists(st.tuples(U64, st.integers(0, 200) | st.just(SHIFT_MAX)), min_size=1), st.integers(0, 60), st.binary())
def test_a_number_is_filled_in(rows: list[tuple[int, int]], between: int, before: bytes) -> None:
    """Whatever it is, and whatever stands before it and behind it."""
    numbers = np.array([number for number, _ in rows], np.uint64)
    lengths = np.array([length for _, length in rows])
    adds = Shifts(lengths).moved(added(field_tables(between), numbers), lengths)
    for (number, length), add in zip(rows, adds.tolist(), strict=True):
        behind = bytes(range(256)) * 20
        behind = behind[: between + length]
        assert crc32(before + bytes(8) + behind) ^ add == crc32(before + number.to_bytes(8, "big") + behind)


def test_every_length() -> None:
    """Each of them has its own table."""
    lengths = np.arange(SHIFT_MAX + 1)
    moved = Shifts(lengths).moved(np.full(len(lengths), crc32(b"x") ^ crc32(b"y"), np.uint32), lengths)
    for length, found in enumerate(moved.tolist()):
        assert found == crc32(b"x" + bytes(length)) ^ crc32(b"y" + bytes(length))
