"""What tests of claims by buckets need: the bucket of a key, keys of a range, what a claim should give."""

from __future__ import annotations

from typing import Any

import journal
from journal.core.buckets import bucket_of
from journal.core.entry.keys import key_bytes, murmur
from journal.engine.state.apply import JournalState


def bucket(key: str | bytes, buckets: int) -> int:
    """The bucket of a key."""
    return bucket_of(murmur(key_bytes(key)), buckets)


def keys_in(part: journal.Range, buckets: int, count: int) -> list[str]:
    """Keys whose buckets are in a range."""
    found = (key for n in range(10**6) if bucket(key := f"key-{n}", buckets) in part)
    return [next(found) for _ in range(count)]


def due_in(pages: journal.Journal, part: journal.Range | None, now: int) -> list[Any]:
    """What claims should give, in order, by a scan of all entries."""
    waiting = [
        e.key
        for e in pages.scan(status="W")
        if e.process_date <= now and (part is None or bucket(e.key, pages.settings.buckets) in part)
    ]
    slow = {e.key for e in pages.scan() if e.priority >= pages.settings.slow_from}
    return [key for key in waiting if key not in slow] or waiting


def state(pages: journal.Journal) -> JournalState:
    """Its state, as of now."""
    with pages._backend.p.lock:
        pages._backend.p.enter()
        return pages._backend.p.state
