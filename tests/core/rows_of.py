"""Rows that core tests build."""

from __future__ import annotations

from typing import Any

from journal.core.entry.keys import primary_key
from journal.core.entry.rows import Row, pack_data

NOW = 1_700_000_000_000
SLOT = bytes(range(16)) + b"\0"


def row(priority: int = 100, date: int = NOW, **columns: Any) -> Row:
    """A waiting entry, inserted at NOW."""
    plain = Row(
        primary=primary_key(priority, date, columns.get("at", 7), SLOT),
        insertion=NOW,
        expiration=0,
        accepted=NOW,
        at=7,
        version=1,
        timeouts=0,
        owner=b"",
        key="a",
        data=pack_data({"n": 1}),
    )
    return plain._replace(**columns)
