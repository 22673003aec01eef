"""Copies that are known are not made again: only for the very same commit, and only as long as they are as they were (take H5)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import journal
from journal.engine.snapshots.reader import Copied
from journal.engine.snapshots.take import take
from journal.testing import ManualClock
from tests.api.reads.test_snapshot import leases_of, shown
from tests.top import top


def copies_of(shot: journal.Snapshot) -> tuple[Copied, ...]:
    return shot.parts(1)[0].copies


def files(top: Path) -> int:
    return len(list(top.rglob("*.mdb")))


def test_an_unchanged_journal_is_copied_once(clock: ManualClock, tmp_path: Path) -> None:
    """The next snapshot has the same entries, and a date of its own. Owners commit before each, so it is who looks that gains."""
    with journal.open(tmp_path / "s", clock=clock) as store:
        pages = store.journal("pages")
        pages.put_many([journal.Put(f"k{n}", n) for n in range(50)])
        assert pages.claim(lease="1h")
    with journal.open(store.path, readonly=True, clock=clock) as look:
        first = take(look.journal("pages")._backend.p, tmp_path / "out")
    clock.advance(5000)
    with journal.open(store.path, readonly=True, clock=clock) as look:
        second = take(look.journal("pages")._backend.p, tmp_path / "out", copies_of(first))
    assert copies_of(second) == copies_of(first) and files(tmp_path / "out") == 1
    assert shown(second.parts(3)) == shown(first.parts(1)) and leases_of(second.parts(1)) == leases_of(first.parts(1))
    assert second.taken == first.taken + 5000 and second.cursor == first.cursor


def test_a_changed_journal_is_copied_again(pages: journal.Journal, tmp_path: Path) -> None:
    """Each shows what was there; of several generations only the changed one is copied."""
    pages.put("a", 1)
    pages.rotate()
    pages.put("b", 2)
    first = take(pages._backend.p, tmp_path / "out")
    pages.put("c", 3)
    second = take(pages._backend.p, tmp_path / "out", copies_of(first))
    (old, _), (same, new) = copies_of(first), copies_of(second)
    assert same == old and new not in copies_of(first)
    assert shown(first.parts(1)) == {"a": 1, "b": 2} and shown(second.parts(1)) == {"a": 1, "b": 2, "c": 3}
    lease = pages.claim()
    assert lease is not None and lease.key == "a"
    third = take(pages._backend.p, tmp_path / "out", [*copies_of(first), *copies_of(second)])
    assert list(leases_of(third.parts(1))) == ["a"] and leases_of(second.parts(1)) == {}


@pytest.mark.parametrize("how", ["gone", "flipped", "cut", "source"])
def test_a_copy_that_is_not_as_it_was_is_made_again(tmp_path: Path, how: str) -> None:
    """Whatever has become of it; or of the journal's own file, which was put back to what it had been."""
    with journal.open(tmp_path / "s") as store:
        store.journal("pages").put("a", 1)
    look = journal.open(store.path, readonly=True)
    pages = look.journal("pages")
    (copy,) = copies_of(take(pages._backend.p, tmp_path / "out"))
    assert copies_of(take(pages._backend.p, tmp_path / "out", [copy])) == (copy,)
    path = Path(copy.path)
    whole = bytearray(path.read_bytes())
    if how == "gone":
        path.unlink()
    elif how == "flipped":
        whole[len(whole) // 2] ^= 1
        path.write_bytes(whole)
    elif how == "cut":
        path.write_bytes(whole[:5000])
    else:
        (rows,) = (store.path / top()).rglob("rows.mdb")
        os.utime(rows, ns=(1, 1))
    second = take(pages._backend.p, tmp_path / "out", [copy])
    look.close()
    assert copies_of(second)[0].path != copy.path and shown(second.parts(1)) == {"a": 1}


def test_merged_journals_are_not_taken_for_each_other(tmp_path: Path) -> None:
    """They share a file and its commits."""
    with journal.open(tmp_path / "s") as store:
        store.journal("a", merged=True).put("k", 1)
        store.journal("b", merged=True).put("k", 2)
    with journal.open(store.path, readonly=True) as look:
        first = take(look.journal("a")._backend.p, tmp_path / "out")
        other = take(look.journal("b")._backend.p, tmp_path / "out", copies_of(first))
        again = take(look.journal("a")._backend.p, tmp_path / "out", [*copies_of(other), *copies_of(first)])
    assert shown(other.parts(1)) == {"k": 2} and shown(again.parts(1)) == {"k": 1}
    assert copies_of(again) == copies_of(first) and files(tmp_path / "out") == 2
