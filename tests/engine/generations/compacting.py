"""What the tests of compaction share: settings, what a follower sees and holds, what was taken out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import journal
from journal import Cursor
from journal.core.entry.effects import Skip
from journal.core.log.events import Event
from journal.engine.log.reader import Reader, RecordPlace, list_segments

SMALL: dict[str, Any] = {"segment_bytes_max": 1 << 16, "compact": True}
Copy = Callable[[journal.Store], Path]


def told(pages: journal.Journal, **options: Any) -> list[Event]:
    return list(pages.feed(live=False, **options))


def words(pages: journal.Journal, **options: Any) -> list[tuple[str, Any]]:
    return [(event.verb, event.key) for event in told(pages, **options)]


def mirror(events: list[Event]) -> dict[Any, Any]:
    """What a follower holds who stores data and removes keys (events N2)."""
    held: dict[Any, Any] = {}
    for event in events:
        if event.op == "delete":
            held.pop(event.key, None)
        elif event.has_data:
            held[event.key] = event.data
    return held


def last_changes(events: list[Event]) -> dict[Any, Cursor]:
    return {
        (event.key, event.flag if event.key is None else None): event.cursor for event in events if event.op != "noop"
    }


def directory(pages: journal.Journal, order: int = 1) -> Path:
    return pages._backend.p.directory(order) / "log"


def skips(pages: journal.Journal, order: int = 1) -> list[tuple[int, int]]:
    """The offset and the length of each run that was taken out."""
    found = directory(pages, order)
    first = list_segments(found)[0]
    return [
        (place.offset, parts.changes)
        for place, _, parts in Reader(found, b"pages", RecordPlace(first, first, 0))
        if type(parts.effect) is Skip
    ]


def fill(pages: journal.Journal, rounds: int = 6, key: str = "hot") -> None:
    for turn in range(rounds):
        pages.put(key, [turn, b"x" * 20_000])


def at_rest(pages: journal.Journal) -> None:
    """Wait for the pass in the background, and until the keeper has told how it ended."""
    while pages._backend.p.compaction._work is not None:
        pages._backend.p.keeper.call(lambda: None)
    pages._backend.p.keeper.call(lambda: None)
