"""Groups of puts: one record, one result or error for each, all that is not refused stands or falls together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal import Put
from tests.engine.helpers import Failing, collide

Copy = Callable[[journal.Store], Path]


def test_each_put_has_its_result_in_order(store: journal.Store, pages: journal.Journal) -> None:
    """Inserted, merged, ignored and wrong ones side by side."""
    pages.put("there", 0)
    results = pages.put_many(
        [
            Put("new", 1),
            Put("there", 2),
            Put("", 3),
            Put("there", 4, insertion_date=5),
            Put("x", {1, 2}),
            Put("y", priority=256),
        ]
    )
    assert [getattr(r, "outcome", type(r).__name__) for r in results] == [
        "inserted", "merged", "Invalid", "ignored", "Invalid", "Invalid",
    ]  # fmt: skip
    assert [(e.key, e.data) for e in sorted(pages.scan(), key=lambda e: e.key)] == [("new", 1), ("there", 2)]


def test_a_key_twice_merges_within_the_group(pages: journal.Journal) -> None:
    """The second put of a key meets the first, as if they had come one after the other."""
    results = pages.put_many([Put("a", 1, priority=50, delay=10), Put("a", 2, priority=90, delay=99), Put("b", 3)])
    assert [r.outcome for r in results if not isinstance(r, Exception)] == ["inserted", "merged", "inserted"]
    entry = pages.get("a")
    assert entry is not None
    assert (entry.data, entry.priority, entry.process_date - entry.insertion_date, entry.version) == (2, 50, 99, 2)


def test_text_and_bytes_are_two_keys(pages: journal.Journal) -> None:
    """`"a"` and `b"a"` have one murmur and are two entries."""
    pages.put_many([Put("a", 1), Put(b"a", 2)])
    assert [pages.get("a").data, pages.get(b"a").data] == [1, 2]  # type: ignore[union-attr]


def test_cursors_run_through_the_group(pages: journal.Journal) -> None:
    """Each change has its own cursor."""
    first = pages.put("first").cursor
    results = pages.put_many([Put("a"), Put("b"), Put("a")])
    assert [r.cursor.offset - first.offset for r in results] == [1, 2, 3]  # type: ignore[union-attr]
    assert pages.put("last").cursor.offset == first.offset + 4


def test_a_group_is_one_sync(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred puts, one fdatasync."""
    disk = Failing(monkeypatch, "fdatasync")
    pages.put_many([Put(f"k{i}") for i in range(100)])
    assert disk.calls == 1


def test_too_many_collisions_are_an_error_of_their_put_only(
    monkeypatch: pytest.MonkeyPatch, store: journal.Store, pages: journal.Journal
) -> None:
    """The 257th key with one murmur is refused; the others of its group are stored."""
    collide(monkeypatch)
    results = pages.put_many([Put(f"k{i}") for i in range(260)])
    assert [isinstance(r, journal.Invalid) for r in results] == [False] * 256 + [True] * 4
    assert pages.count() == 256


@pytest.mark.slow
def test_the_largest_group_survives_a_crash(tmp_path: Path, crashed: Copy) -> None:
    """What put_many accepts, recovery can read, whatever the mix of keys and data."""
    with journal.open(tmp_path / "s") as opened:
        pages = opened.journal("pages")
        try:
            pages.put_many([Put(f"{i:01000}", bytes(400)) for i in range(100_000)])
        except journal.Invalid:
            return  # refusing such a group is fine; taking it and losing it is not
        with journal.open(crashed(opened)) as again:
            assert again.journal("pages").count() == 100_000


@pytest.mark.slow
def test_a_large_entry_survives_a_crash(tmp_path: Path, crashed: Copy) -> None:
    """An entry as large as its setting allows is read back by recovery."""
    with journal.open(tmp_path / "s") as opened:
        pages = opened.journal("pages", entry_bytes_max=1 << 27)
        pages.put("large", bytes(120 << 20))
        with journal.open(crashed(opened)) as again:
            entry = again.journal("pages").get("large")
            assert entry is not None and len(entry.data) == 120 << 20


@pytest.mark.slow
def test_done_many_with_large_successors_survives_a_crash(tmp_path: Path, crashed: Copy) -> None:
    """A done_many that promotes many large successors is one record that recovery can read."""
    with journal.open(tmp_path / "s", durability="interval") as opened:
        pages = opened.journal("pages")
        for i in range(140):
            pages.put(f"k{i}")
        leases = pages.claim_many(140)
        for i in range(140):
            pages.put(f"k{i}", bytes((1 << 20) - 2000))
        assert pages.done_many(leases) == [None] * 140
        with journal.open(crashed(opened)) as again:
            assert again.journal("pages").count(status="W") == 140
