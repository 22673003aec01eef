"""
Whether two values are the same data. A repeated publication is recognised by it.

S1  Types count: 1 is neither 1.0 nor True, a text is not bytes. The order of a map's keys does not count, and NaN is NaN.
"""

from __future__ import annotations

from typing import Any

from journal.core.entry.rows import unpack_data


def is_same_packed(a: bytes, b: bytes) -> bool:
    """Whether two values are the same, given as they are stored; they are unpacked only when their bytes differ."""
    return a == b or is_same(unpack_data(a), unpack_data(b))


def is_same(a: Any, b: Any) -> bool:
    """Whether two values are the same (S1)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return len(a) == len(b) and all(key in b and is_same(value, b[key]) for key, value in a.items())
    if isinstance(a, list):
        return len(a) == len(b) and all(map(is_same, a, b))
    return bool(a == b or (a != a and b != b))  # NaN is the same NaN
