"""Our engine, in the shape that the peers have, and the stores that the larger rows need."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import journal
from benchmarks.measure import DATA

JOURNAL = "bench"
LONG_LEASE = "1d"
"""No lease ends while we measure."""
LOAD_BATCH = 1_000


class Ours:
    """A store with one journal, seen as a peer: put, get, ack."""

    def __init__(self, path: Path, durability: str) -> None:
        self.store = journal.open(path, durability=durability)
        self.journal = self.store.journal(JOURNAL)
        self._numbers = itertools.count()
        self._run = path.name
        # Taken once, as a user's loop would: an attribute of an attribute is not what is measured.
        self._put = self.journal.put
        self._claim = self.journal.claim

    def put(self, data: bytes) -> None:
        self._put(f"page-{next(self._numbers)}", data)

    def get(self) -> Any:
        return self._claim(consumer="bench")  # under the journal's own lease time, an hour

    def ack(self, token: Any) -> None:
        token.done()

    def tidy(self) -> None:
        """Nothing is left behind."""

    def fresh(self, size: int) -> list[journal.Put]:
        """A batch of new keys for put_many."""
        return [journal.Put(f"page-{next(self._numbers)}", DATA) for _ in range(size)]

    def close(self) -> None:
        self.store.close()


def load(into: Any, size: int, prefix: str, **options: Any) -> None:
    """Put `size` entries into a journal, in batches."""
    for batch in _batches(size, prefix, options):
        for result in into.put_many(batch):
            if isinstance(result, Exception):
                raise result


def _batches(size: int, prefix: str, options: dict[str, Any]) -> Iterator[list[journal.Put]]:
    for start in range(0, size, LOAD_BATCH):
        stop = min(size, start + LOAD_BATCH)
        yield [journal.Put(f"{prefix}-{number}", DATA, **options) for number in range(start, stop)]


def fill(path: Path, size: int, prefix: str = "waiting", **options: Any) -> None:
    """Make a store at `path` (or add to it), load it unsynced, checkpoint and close it."""
    with journal.open(path, durability="none") as store:
        load(store.journal(JOURNAL), size, prefix, **options)
        store.checkpoint()


def rss_anon_bytes() -> int:
    """The process's own memory: RssAnon, without the mapped files, which belong to the page cache."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not report RssAnon in /proc/self/status")


def written_bytes() -> int:
    """What this process has given to write calls so far."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    raise RuntimeError("this system does not report wchar in /proc/self/io")
