"""
Quotes untrusted values for messages and logs: one function, so that no value forges a line or moves a cursor.

X1  The result is one line of printable characters, at most about TEXT_MAX of them, whatever was sent.
X2  Our own texts, with such values in them, are kept whole, up to REASON_MAX: the remedy stands at their end.
"""

from __future__ import annotations

from typing import Any

TEXT_MAX = 60
REASON_MAX = 600


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


def told(reason: object) -> str:
    """A reason of ours for a log, on one line of printable characters (X2)."""
    text = str(reason)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)
    return text if len(text) <= REASON_MAX else f"{text[:REASON_MAX]}…"
