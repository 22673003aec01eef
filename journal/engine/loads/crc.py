"""
Checksums of very many entries that change in a few bytes: corrected, not computed anew.

A CRC-32 is linear: what a byte adds to it depends on that byte and on how many bytes come behind it, and on nothing else. An entry
whose `at` was 0 when its checksum was made has the right one after an exclusive or with what the bytes of `at` add. For a
million entries at a time that is a few look-ups in tables for each, where a call of zlib would have to read all of its bytes.

C1  A result is the same as zlib's, byte for byte; a test compares them for all lengths.
C2  Tables are made for up to SHIFT_MAX bytes behind; for entries with more, callers use zlib, which is fast enough there.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
SHIFT_MAX = 4096
_USUAL = 512


def _table() -> Words:
    """What a byte makes of a CRC of 0."""
    found = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        found = np.where(found & 1, found >> 1 ^ np.uint32(0xEDB88320), found >> 1).astype(np.uint32)
    return found


_TABLE = _table()


def _passed_zero(states: Words) -> Words:
    """What a byte of 0 behind them makes of CRCs."""
    passed: Words = _TABLE[states & 0xFF] ^ (states >> np.uint32(8))
    return passed


def field_tables(behind: int) -> Words:
    """For each byte of a number of 8 bytes, which has so many bytes behind it: what it adds."""
    rows = [_TABLE]
    for _ in range(7 + behind):
        rows.append(_passed_zero(rows[-1]))
    return np.stack(rows[behind : behind + 8][::-1])


def added(tables: Words, numbers: NDArray[Any]) -> Words:
    """What numbers of 8 bytes add. A byte that is the same in all of them is looked up once."""
    numbers = numbers.astype("<u8")
    some, every = int(np.bitwise_or.reduce(numbers)), int(np.bitwise_and.reduce(numbers))
    octets = numbers.view(np.uint8).reshape(-1, 8)
    total = np.zeros(len(numbers), np.uint32)
    same = 0
    for place in range(8):
        shift = 56 - 8 * place
        if (some ^ every) >> shift & 0xFF:
            total ^= tables[place][octets[:, 7 - place]]
        else:
            same ^= int(tables[place][some >> shift & 0xFF])
    return total ^ np.uint32(same)


@cache
def _usual() -> Shifts:
    return Shifts(np.arange(_USUAL))


def shifts_for(lengths: NDArray[Any]) -> Shifts:
    """The tables for these lengths, up to SHIFT_MAX; those of short entries are made once."""
    return _usual() if len(lengths) and int(lengths.max()) < _USUAL else Shifts(lengths)


class Shifts:
    """Moves what was added to the end of entries: over as many bytes as each has behind it, up to SHIFT_MAX."""

    def __init__(self, lengths: NDArray[Any]) -> None:
        """`lengths`: all that will be asked for."""
        present = np.zeros(SHIFT_MAX + 1, np.bool_)
        present[lengths] = True
        wanted = np.flatnonzero(present)
        self._places = np.cumsum(present) - 1
        bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
        rows = []
        at = 0
        for length in wanted.tolist():
            while at < length:
                bits = _passed_zero(bits)
                at += 1
            rows.append(bits)
        basis = np.stack(rows).reshape(-1, 4, 8) if rows else np.zeros((0, 4, 8), np.uint32)
        tables = np.zeros((len(rows), 4, 1), np.uint32)
        for bit in range(8):
            tables = np.concatenate([tables, tables ^ basis[:, :, bit : bit + 1]], axis=2)
        self._tables = tables.reshape(-1)

    def moved(self, states: Words, lengths: NDArray[Any]) -> Words:
        """What CRCs become over so many bytes of 0."""
        base = self._places[lengths] << 10
        octets = states.astype("<u4").view(np.uint8).reshape(-1, 4)
        total: Words = self._tables[base + octets[:, 0]]
        for place in (1, 2, 3):
            total ^= self._tables[base + (octets[:, place] + np.int64(place << 8))]
        return total
