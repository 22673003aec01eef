"""What tests of loads need: blocks, and what can be seen of a journal."""

from __future__ import annotations

from typing import Any

import msgpack

import journal
from journal.loads import encode_block, encode_columns
from tests.top import top

NOW = 1_700_000_000_000
"""Where the clock of the tests stands."""


def block(*rows: tuple[Any, ...]) -> bytes:
    """A load block; data is packed here."""
    return encode_block([(key, msgpack.packb(data), *rest) for key, data, *rest in rows])


def many(n: int, start: int = 0) -> bytes:
    """A block of n usual rows."""
    return encode_columns(
        [f"k{i}" for i in range(start, start + n)], [msgpack.packb(i) for i in range(start, start + n)]
    )


def counts(loaded: journal.Loaded) -> dict[str, int]:
    """The outcomes that there were."""
    names = ("inserted", "merged", "replaced", "queued", "ignored", "skipped")
    return {name: getattr(loaded, name) for name in names if getattr(loaded, name)}


def shown(pages: journal.Journal) -> dict[Any, Any]:
    """What can be seen of all entries."""
    return {entry.key: entry for entry in pages.scan()}


def log_size(store: journal.Store) -> int:
    """What a refusal must not change."""
    return sum(path.stat().st_size for path in (store.path / top()).rglob("*.log"))
