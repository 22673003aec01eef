"""`log_old`: the log keeps the data before a change, for followers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal.testing import ManualClock

Copy = Callable[[journal.Store], Path]


@pytest.fixture
def pages(store: journal.Store) -> journal.Journal:
    """A journal whose log keeps it."""
    return store.journal("pages", log_old=True)


def told(pages: journal.Journal) -> list[tuple[object, ...]]:
    return [(e.verb, e.key, e.old if e.has_old else "-", e.data if e.has_data else "-") for e in pages.feed(live=False)]


def test_old_and_new_data_are_told(pages: journal.Journal, clock: ManualClock) -> None:
    """Of every change that took data away, or put other data in its place."""
    pages.put("k", 1)
    pages.put("k", 2)
    pages.claim().done()  # type: ignore[union-attr]
    pages.put("k", 3)
    pages.claim().release()  # type: ignore[union-attr]
    pages.move("k", priority=5)
    pages.delete("k")
    pages.put("e", None, expiration=clock.now() + 10)
    clock.advance(20)
    pages.count()
    assert told(pages) == [
        ("put", "k", "-", 1),
        ("replace", "k", 1, 2),
        ("claim", "k", "-", "-"),
        ("done", "k", 2, "-"),
        ("put", "k", "-", 3),
        ("claim", "k", "-", "-"),
        ("release", "k", 3, 3),
        ("replace", "k", 3, 3),
        ("delete", "k", 3, "-"),
        ("put", "e", "-", None),
        ("expire", "e", None, "-"),
    ]


def test_a_successor_follows_the_old_data(pages: journal.Journal) -> None:
    """Done with a successor behind it: what was finished is the old data, the successor the new."""
    pages.put("k", 1)
    lease = pages.claim()
    pages.put("k", 2)
    lease.done()  # type: ignore[union-attr]
    assert told(pages)[-1] == ("done", "k", 1, 2)


def test_groups_tell_each(pages: journal.Journal) -> None:
    """Also a key that comes twice in a group."""
    pages.put("a", 1)
    pages.put_many([journal.Put("a", 2), journal.Put("b", 3), journal.Put("a", 4)])
    pages.done_many(pages.claim_many(5))
    events = told(pages)
    assert events[1:4] == [("replace", "a", 1, 2), ("put", "b", "-", 3), ("replace", "a", 2, 4)]
    assert sorted(map(str, events[-2:])) == ["('done', 'a', 4, '-')", "('done', 'b', 3, '-')"]


def test_it_is_the_same_after_a_crash_a_rotation_and_a_reopen(
    tmp_path: Path, clock: ManualClock, crashed: Copy
) -> None:
    """The records are replayed as any; new generations keep it too; it can be switched on and off."""
    with journal.open(tmp_path / "s", clock=clock) as store:
        pages = store.journal("pages", log_old=True)
        with pages.feed(consumer="c", live=False):
            pass
        pages.put("k", 1)
        pages.put("k", 2)
        pages.rotate()
        pages.put("k", 3)
        store.journal("pages", log_old=False)
        pages.put("k", 4)
        expected = [("put", "k", "-", 1), ("replace", "k", 1, 2), ("replace", "k", 2, 3), ("replace", "k", "-", 4)]
        assert told(pages) == expected
        copy = crashed(store)
    for path in (copy, tmp_path / "s"):
        with journal.open(path, clock=clock) as store:
            assert told(store.journal("pages")) == expected
            assert [e.data for e in store.journal("pages").scan()] == [4]
            assert store.check() == []
