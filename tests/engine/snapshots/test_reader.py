"""Parts of a large snapshot: where they are cut is estimated from some pages, and matters for their sizes only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal.core.entry.keys import PRIMARY_BYTES
from journal.engine.files.lmdb import peeked_keys
from journal.engine.snapshots import reader


@pytest.fixture(autouse=True)
def _peeks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are taken for large ones."""
    monkeypatch.setattr(reader, "PEEK_ROWS_MIN", 100)


def sizes(shot: journal.Snapshot, count: int) -> list[int]:
    """How many entries each part has; all of them are there once, in order."""
    keys: list[bytes] = []
    found: list[int] = []
    for part in shot.parts(count):
        rows = [primary for block in part.read() for primary in block.primaries]
        keys += rows
        found.append(len(rows))
    assert keys == sorted(set(keys)) and len(keys) == shot.size
    return found


def test_parts_are_of_about_the_same_size(pages: journal.Journal) -> None:
    """Also where pages are filled otherwise than elsewhere, and over several generations."""
    pages.put_many(
        [journal.Put(f"a{n}", n, priority=n % 3, process_date=1_700_000_000_000 + n * 7919 % 4000) for n in range(8000)]
    )
    pages.rotate()
    pages.put_many([journal.Put(f"b{n}", n, priority=2, process_date=1_800_000_000_000 + n) for n in range(4000)])
    with pages.snapshot() as shot:
        assert peeked_keys(Path(shot.parts(1)[0].copies[0].path), PRIMARY_BYTES, 1000)
        for count in (2, 5):
            found = sizes(shot, count)
            assert len(found) == count and max(found) < 2 * shot.size / count


def test_large_values_are_walked_over(pages: journal.Journal) -> None:
    """Nearly all pages are theirs, so the others tell nothing."""
    pages.put_many([journal.Put(f"k{n}", b"x" * 20_000) for n in range(200)])
    with pages.snapshot() as shot:
        found = sizes(shot, 4)
        assert len(found) == 4 and max(found) < 100


def test_only_what_is_asked_for_is_cut(pages: journal.Journal) -> None:
    """A range is cut where its own entries are."""
    pages.put_many([journal.Put(f"k{n}", n, priority=n // 1500) for n in range(6000)])
    with pages.snapshot() as shot:
        parts = shot.parts(3, priorities=[2])
        rows = [[p[0] for block in part.read() for p in block.primaries] for part in parts]
        assert sum(map(len, rows)) == 1500 and {priority for part in rows for priority in part} == {2}


def test_a_look_knows_whether_it_shows_all(
    store: journal.Store, pages: journal.Journal, crashed: Callable[[journal.Store], Path]
) -> None:
    """It does when the last owner closed the journal, and nobody has opened it since; an owner always does."""
    pages.put("a", 1)
    assert pages.shows_all
    path = crashed(store)
    with journal.open(path, readonly=True) as look:
        assert not look.journal("pages").shows_all
    with journal.open(path) as again:
        assert again.journal("pages").shows_all
    with journal.open(path, readonly=True) as look:
        assert look.journal("pages").shows_all and look.journal("pages").get("a") is not None
