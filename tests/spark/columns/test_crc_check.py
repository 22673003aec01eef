"""Checksums of many rows at once say the same as one call for each row."""

from __future__ import annotations

import random
from zlib import crc32

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed: pip install 'journal[spark]'")
from spark_export.columns.crc_check import first_wrong, joined  # noqa: E402 - numpy is needed for it


def rows(seed: int, sizes: list[int]) -> tuple[bytes, list[int], list[int]]:
    """Bytes of rows with these sizes, where they end, and their checksums."""
    dice = random.Random(seed)
    pieces = [dice.randbytes(size) for size in sizes]
    ends = np.cumsum(sizes).tolist()
    return b"".join(pieces), ends, [crc32(piece) for piece in pieces]


SIZES = {
    "one": [77],
    "one that is empty": [0],
    "two": [1, 2],
    "empty ones between": [0, 5, 0, 0, 256, 0],
    "tiny": [n % 4 for n in range(3000)],
    "around a block": list(range(250, 520)),
    "alike": [256] * 300,
    "of an entry": [150 + n * 37 % 90 for n in range(4000)],
    "large": [1, 1_000_000, 3, 70_000, 0],
}


@pytest.mark.parametrize("name", SIZES)
def test_joined_is_the_checksum_of_all_bytes(name: str) -> None:
    """Whatever their sizes, and wherever they end in a block."""
    whole, ends, crcs = rows(1, SIZES[name])
    assert joined(np.array(ends), np.array(crcs, np.uint32)) == crc32(whole)


@pytest.mark.parametrize("name", SIZES)
def test_a_wrong_row_is_named(name: str) -> None:
    """Any bit of any row, or of its checksum (A1)."""
    sizes = SIZES[name]
    whole, ends, crcs = rows(2, sizes)
    arrays = np.array(ends) - np.array(sizes), np.array(ends)
    assert first_wrong(whole, *arrays, np.array(crcs, np.uint32)) is None
    dice = random.Random(3)
    for _ in range(30):
        n = dice.randrange(len(sizes))
        changed, others = bytearray(whole), list(crcs)
        if sizes[n]:
            changed[ends[n] - 1 - dice.randrange(sizes[n])] ^= 1 << dice.randrange(8)
        else:
            others[n] ^= 1 << dice.randrange(32)
        assert first_wrong(bytes(changed), *arrays, np.array(others, np.uint32)) == n


def test_no_rows_are_right() -> None:
    """Of nothing there is nothing wrong."""
    none = np.array([], np.int64)
    assert first_wrong(b"", none, none, np.array([], np.uint32)) is None
