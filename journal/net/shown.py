"""
What others sent, as it may stand in a message or a log: one function, so that nobody forges a line or moves a cursor.

X1  The result is one line of printable characters, at most about TEXT_MAX of them, whatever was sent.
"""

from __future__ import annotations

from typing import Any

TEXT_MAX = 60


def shown(value: Any) -> str:
    """A value from outside, quoted, escaped and cut (X1)."""
    if isinstance(value, (bytearray, memoryview)):
        value = bytes(value)
    if isinstance(value, (str, bytes)):
        if len(value) <= TEXT_MAX:
            return repr(value)
        return f"{value[:TEXT_MAX]!r}… ({len(value)} {'bytes' if isinstance(value, bytes) else 'characters'})"
    if value is None or isinstance(value, (bool, int, float)):
        text = repr(value)
        return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
    try:
        return f"<{type(value).__name__} of {len(value)}>"
    except TypeError:
        return f"<{type(value).__name__}>"
