"""Loads last, as one change: numbers that are kept, followers, crashes, full disks and maps."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.core.limits import LOAD_NAMES_MAX
from journal.engine.loads import prepare
from journal.testing import ManualClock
from tests.engine.loads.blocks import block, counts, log_size, many, shown
from tests.top import top

Copy = Callable[[journal.Store], Path]


def test_a_load_is_made_once(pages: journal.Journal) -> None:
    """A number that is not above the last one of its name changes nothing; other names do not matter."""
    first = pages.load([many(3)], once=("n", 7))
    for number in (7, 6, 0):
        again = pages.load([many(5)], once=("n", number))
        assert (again.is_repeated, counts(again), again.cursor) == (True, {}, first.cursor)
    assert pages.load([many(3, 3)], once=("m", 0)).inserted == 3
    assert pages.load([many(3, 6)], once=("n", 8)).inserted == 3
    assert pages.count() == 9


@pytest.mark.parametrize("on_conflict", ["merge", "skip"])
def test_a_load_that_changes_nothing_counts_as_made(pages: journal.Journal, on_conflict: str) -> None:
    """Without rows, or with rows that are there: its number is kept."""
    assert pages.load([], once=("n", 1)).cursor.offset == 0
    assert pages.load([], once=("n", 1)).is_repeated
    pages.put("a")
    pages.load([block(("a", 1, 100, 5, 5))], once=("n", 2), on_conflict=on_conflict)
    assert pages.load([many(1)], once=("n", 2)).is_repeated
    assert pages.load([]).cursor == pages.load([many(1)]).cursor._replace(offset=2)


def test_numbers_survive(tmp_path: Path, crashed: Copy, clock: ManualClock) -> None:
    """A reopen, a crash, and rotations, for merged and other journals; a journal that is dropped forgets them."""
    names = {"alone": False, "one": True, "two": True}
    with journal.open(tmp_path / "s", clock=clock) as opened:
        for name, merged in names.items():
            opened.journal(name, merged=merged).load([many(2)], once=(name, 1))
        copy = crashed(opened)
        opened.journal("alone").rotate()
        opened.merged().rotate()
        opened.merged().rotate()
        for name in names:
            assert opened.journal(name).load([many(5)], once=(name, 1)).is_repeated
        assert opened.check() == []
    for path in (tmp_path / "s", copy):
        with journal.open(path, clock=clock) as again:
            for name in names:
                assert again.journal(name).load([many(5)], once=(name, 1)).is_repeated
                assert again.journal(name).load([many(5)], once=("other", 1)).merged == 2
            again.drop("one")
            again.drop("alone")
            assert again.journal("one", merged=True).load([many(5)], once=("one", 1)).inserted == 5
            assert again.journal("alone").load([many(5)], once=("alone", 1)).inserted == 5
            assert again.check() == []
        with journal.open(path, clock=clock) as last:
            assert last.journal("one").load([many(5)], once=("one", 1)).is_repeated
            assert last.journal("two").load([many(5)], once=("two", 1)).is_repeated


def test_the_last_names_are_remembered(store: journal.Store, pages: journal.Journal) -> None:
    """So many of them; the one that was loaded longest ago goes first."""
    for i in range(LOAD_NAMES_MAX):
        pages.load([], once=(f"n{i}", 5))
    pages.load([], once=("n0", 6))
    pages.load([], once=("new", 1))
    assert pages.load([], once=("n0", 6)).is_repeated
    assert pages.load([], once=("n2", 5)).is_repeated
    assert not pages.load([], once=("n1", 5)).is_repeated


@pytest.mark.parametrize("n", [10, 3000])
def test_followers_see_each_row(pages: journal.Journal, n: int) -> None:
    """As an insert or an update of its own, with its data, also when it is made once."""
    feed = pages.feed(live=False)
    pages.put("k0", "old")
    pages.load([many(n)])
    pages.load([many(n, n)], once=("a", 1))
    pages.load([], once=("b", 1))
    pages.load([many(2, 2 * n - 1)], once=("c", 1))
    events = list(feed)
    assert [event.cursor.offset for event in events] == list(range(2 * n + 4))
    puts = {event.key: event.data for event in events if event.verb == "put"}
    assert puts == {"k0": "old"} | {f"k{i}": i for i in range(1, 2 * n + 1)}
    assert [(e.op, e.verb, e.key) for e in events if e.verb != "put"] == [
        ("update", "replace", "k0"), ("noop", "load", None), ("update", "replace", f"k{2 * n - 1}"),
    ]  # fmt: skip


def test_a_compacted_log_has_what_was_loaded(store: journal.Store) -> None:
    """As long as a row of it is the last change of its key; a load that is wholly outdated goes."""
    pages = store.journal("compacted", compact=True, segment_bytes_max=1 << 16)
    pages.load([many(1500)], once=("gone", 1))
    pages.load([many(1500)], once=("stays", 1), on_conflict="replace")
    pages.put_many([journal.Put(f"k{i}", "later") for i in range(1, 1500)])
    for _ in range(3):  # what two checkpoints have passed may be compacted
        pages.put("k1", "last")
        store.checkpoint()
    compacted = pages.compact()
    assert compacted.records_after < compacted.records_before
    last = {event.key: event.data for event in pages.feed(live=False)}
    assert last == {entry.key: entry.data for entry in pages.scan()}
    assert last["k0"] == 0 and pages.load([], once=("gone", 1)).is_repeated


def test_old_data_is_kept_with_log_old(store: journal.Store) -> None:
    """Where a row met an entry."""
    pages = store.journal("old", log_old=True)
    pages.put("k1", "before")
    feed = pages.feed(live=False, start="END")
    pages.load([many(2000)], once=("a", 1))
    assert {event.key: event.old for event in feed if event.has_old} == {"k1": "before"}


@pytest.mark.parametrize("once", [None, ("n", 1)])
def test_what_was_loaded_survives_a_crash(tmp_path: Path, crashed: Copy, clock: ManualClock, once: Any) -> None:
    """Before the checkpoint and after it, new rows and those that met entries; byte for byte the same."""
    with journal.open(tmp_path / "s", clock=clock, durability="interval") as opened:
        pages = opened.journal("pages")
        pages.put("k5", "there")
        copies = []
        hold = pages._backend.p.checkpoints.hold

        def held() -> None:
            copies.append(crashed(opened))
            hold()
            copies.append(crashed(opened))

        pages._backend.p.checkpoints.hold = held  # type: ignore[method-assign]
        pages.load([many(2000, 10_000)], once=once)
        pages.load([many(2000)], once=None if once is None else ("n", 2))
        wanted = shown(pages)
        for path in copies[-2:]:
            with journal.open(path, clock=clock) as again:
                assert shown(again.journal("pages")) == wanted
                assert again.check() == []
                assert again.journal("pages").load([], once=("n", 2)).is_repeated is (once is not None)
        for path in copies[:-2]:
            with journal.open(path, clock=clock) as again:
                assert again.journal("pages").count() in (1, 2001)
                assert again.check() == []


def test_a_torn_load_is_absent(tmp_path: Path, crashed: Copy, clock: ManualClock) -> None:
    """Of a record that was cut anywhere no row is left, and no number."""
    with journal.open(tmp_path / "s", clock=clock, durability="interval") as opened:
        pages = opened.journal("pages")
        pages.put("before")
        pages._backend.p.checkpoints.hold = lambda: None  # type: ignore[method-assign]
        begin = pages._backend.p.log.position
        pages.load([many(2000)], once=("n", 1))
        end = pages._backend.p.log.position
        for at in (begin + 100, (begin + end) // 2, end - 1):
            copy = crashed(opened)
            (segment,) = (copy / top()).rglob("*.log")
            with open(segment, "r+b") as file:
                file.seek(at)
                file.write(bytes(end - at))
            with journal.open(copy, clock=clock) as again:
                assert again.journal("pages").count() == 1
                assert not again.journal("pages").load([many(3)], once=("n", 1)).is_repeated
                assert again.check() == []


def test_a_full_disk_refuses_a_load(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """StoreFull, nothing is changed, the log gives back what it took, and others go on; later it works."""
    pages.put("before")
    real = os.pwrite
    grown = 300 << 10

    def pwrite(fd: int, data: bytes, position: int) -> int:
        if position + len(data) > grown:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data, position)

    monkeypatch.setattr(os, "pwrite", pwrite)
    size = log_size(store)
    with pytest.raises(journal.StoreFull):
        pages.load([many(20_000)], once=("n", 1))
    assert (pages.count(), log_size(store)) == (1, size)
    assert pages.put("small").outcome == "inserted"
    monkeypatch.setattr(os, "pwrite", real)
    assert pages.load([many(20_000)], once=("n", 1)).inserted == 20_000


def test_a_full_map_refuses_a_load(tmp_path: Path) -> None:
    """Before anything is written; and it does not keep others from their work."""
    with journal.open(tmp_path / "s", map_bytes=4 << 20) as opened:
        pages = opened.journal("pages")
        with pytest.raises(journal.StoreFull, match="map_bytes"):
            pages.load([many(30_000)])
        assert pages.count() == 0
        assert pages.put("small").outcome == "inserted"
        assert pages.load([many(500, 100_000)]).inserted == 500
        assert opened.check() == []


def test_a_load_that_is_too_large_is_refused(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what its rows take in the log."""
    monkeypatch.setattr(prepare, "LOAD_BYTES_MAX", 100_000)
    with pytest.raises(journal.Invalid, match="more than 100000 bytes"):
        pages.load([many(400), many(400, 400)])
    assert pages.count() == 0


def test_others_are_not_refused_after_a_load(tmp_path: Path, crashed: Copy) -> None:
    """A load of more changes than fit the map by the cautious count does not make puts fail, after a crash neither."""
    with journal.open(tmp_path / "s", map_bytes=64 << 20, durability="interval") as opened:
        pages = opened.journal("pages")
        pages._backend.p.checkpoints.hold = lambda: None  # type: ignore[method-assign]
        assert pages._backend.p.checkpoints.changes_room < 10_000
        pages.load([many(10_000)])
        pages._backend.p.checkpoints.is_hold_due = False
        assert pages.put("next").outcome == "inserted"
        copy = crashed(opened)
    with journal.open(copy, map_bytes=64 << 20) as again:
        assert again.journal("pages").put("one more").outcome == "inserted"
        assert again.journal("pages").count() == 10_002


def test_a_readonly_store_refuses(tmp_path: Path) -> None:
    """Only its owner loads."""
    with journal.open(tmp_path / "s") as opened:
        opened.journal("pages").put("a")
    with journal.open(tmp_path / "s", readonly=True) as look, pytest.raises(journal.ReadOnly):
        look.journal("pages").load([many(1)])
