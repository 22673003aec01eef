"""Compaction: of each key the last change stays, and what decided its data; what becomes of the files, whatever fails."""

from __future__ import annotations

import errno
import gc
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import journal
from journal import Cursor, LogDamaged, Refused, StoreClosed, StoreFull
from journal.core.log.compaction_rule import Latest
from journal.engine.feed.log_tail import Tail
from journal.engine.generations import compaction
from journal.engine.log import compactor
from journal.engine.log.reader import CONDENSED, list_segments
from journal.testing import ManualClock
from tests.engine.generations.compacting import SMALL, Copy, at_rest, directory, fill, mirror, skips, told, words
from tests.engine.helpers import Failing


@pytest.fixture
def kept(store: journal.Store) -> journal.Journal:
    """A journal that keeps its log compacted, in small segments."""
    return store.journal("pages", **SMALL)


# --- what stays -------------------------------------------------------------------------------------------------------


def test_the_last_change_of_each_key_stays(kept: journal.Journal) -> None:
    """And a follower who begins later sees it, then what follows."""
    fill(kept)
    kept.put("a", 1)
    kept.put("b", 1)
    kept.put("a", 2)
    result = kept.compact()
    assert (result.records_before, result.records_after) == (9, 5)
    assert result.bytes_after < result.bytes_before
    kept.put("c", 1)
    assert [(event.key, event.cursor.offset) for event in told(kept)] == [("hot", 5), ("b", 7), ("a", 8), ("c", 9)]
    assert skips(kept) == [(0, 5), (6, 1)]


def test_nothing_is_kept_for_later_followers_unless_asked(store: journal.Store) -> None:
    """A plain queue lets its log go, and refuses to be compacted."""
    pages = store.journal("pages", segment_bytes_max=1 << 16)
    for turn in range(12):
        pages.put(f"k{turn}", b"x" * 30_000)
        store.checkpoint()
    assert told(pages)[0].cursor.offset > 0
    with pytest.raises(Refused, match="compact=True"):
        pages.compact()


def test_what_decided_the_data_stays_with_the_last_change(kept: journal.Journal) -> None:
    """A claim has no data: the put that it claims stays too, and both go when it is done."""
    kept.put("a", 1)
    kept.put("a", 2)
    kept.put("b", 1)
    lease = kept.claim()
    assert lease is not None
    lease.extend("2h")
    kept.compact()
    assert words(kept) == [("replace", "a"), ("put", "b"), ("extend", "a")]
    lease.done()
    kept.compact()
    assert words(kept) == [("put", "b"), ("done", "a")]


def test_a_group_stays_whole(kept: journal.Journal) -> None:
    """One change of it is the last of its key: the record is one, with one checksum."""
    kept.put_many([journal.Put(f"k{n}", n) for n in range(5)])
    for n in range(4):
        kept.delete(f"k{n}")
    kept.put_many([journal.Put("gone", 1)])
    kept.delete("gone")
    kept.compact()
    assert words(kept) == [
        *[("put", f"k{n}") for n in range(5)],
        *[("delete", f"k{n}") for n in range(4)],
        ("delete", "gone"),
    ]


@pytest.mark.alone(reason="flags of the whole are none of a merged journal's own changes")
def test_flags_and_colliding_keys_are_told_apart(kept: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text and bytes are different keys; what was done to a flag last stays."""
    kept.put("a", "text")
    kept.put(b"a", "bytes")
    kept._backend.p.retention._raise("one")
    kept._backend.p.retention._raise("two")
    kept.compact()
    assert [(e.key, e.flag, e.reason) for e in told(kept)] == [
        ("a", None, None),
        (b"a", None, None),
        (None, "feed", "two"),
    ]


def test_more_keys_than_are_known_keep_more(store: journal.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the table is full older changes stay; never less than the last one of a key."""
    monkeypatch.setattr(compaction, "Latest", partial(Latest, keys_max=3))
    pages = store.journal("pages", **SMALL)
    for turn in range(2):
        for n in range(6):
            pages.put(f"k{n}", turn)
    pages.compact()
    assert [(e.key, e.data) for e in told(pages)] == [
        *[(f"k{n}", 0) for n in range(3)],
        *[(f"k{n}", 1) for n in range(6)],
    ]


# --- files ------------------------------------------------------------------------------------------------------------


def test_small_neighbours_become_one_file(kept: journal.Journal) -> None:
    """Files do not pile up, and runs that were taken out one after the other are one."""
    fill(kept, 12)
    assert len(list_segments(directory(kept))) >= 4
    kept.compact()
    assert len(list_segments(directory(kept))) == 2
    fill(kept, 12)
    kept.compact()
    assert list_segments(directory(kept)) == [0, 24]
    assert skips(kept) == [(0, 23)]


def test_large_files_are_not_put_together(kept: journal.Journal) -> None:
    """What stays is spread over files of the usual size."""
    for n in range(12):
        kept.put(f"k{n}", b"x" * 20_000)
    before = list_segments(directory(kept))
    result = kept.compact()
    assert result.records_before == result.records_after == 12
    assert list_segments(directory(kept)) == [*before, 12]


def test_it_runs_by_itself_when_there_is_enough(kept: journal.Journal, store: journal.Store) -> None:
    """After checkpoints, in the background; and not again before more has come."""
    for turn in range(12):
        kept.put("hot", [turn, b"x" * 30_000])
        store.checkpoint()
    at_rest(kept)
    numbers = kept.statistics()
    assert numbers["compactions"] >= 1 and numbers["compacted_records"] > 0 and numbers["compacted_bytes"] > 0
    kept.compact()
    passes = kept.statistics()["compactions"]
    for _ in range(4):
        store.checkpoint()
    assert kept._backend.p.compaction._work is None
    assert kept.statistics()["compactions"] == passes


def test_a_full_disk_postpones_it(kept: journal.Journal, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """Nothing changes; who asked is told, in the background it is a warning."""
    fill(kept)
    before, files = words(kept), sorted(os.listdir(directory(kept)))
    real = compactor.open_file

    def full(path: Path, flags: int = os.O_RDWR) -> int:
        if path.name == CONDENSED:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, flags)

    monkeypatch.setattr(compactor, "open_file", full)
    with pytest.raises(StoreFull):
        kept.compact()
    assert words(kept) == before
    assert sorted(os.listdir(directory(kept)))[:-1] == files
    kept._backend.p.keeper.call(kept._backend.p.compaction.look)
    at_rest(kept)
    assert "compaction_postponed" in caplog.text
    assert words(kept) == before
    monkeypatch.undo()
    kept.compact()
    assert len(words(kept)) == 1


@pytest.mark.parametrize("call", ["rename", "unlink", "fdatasync", "ftruncate", "pwrite"])
def test_a_call_that_fails_leaves_a_log_that_can_be_read(
    kept: journal.Journal, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """At whatever step: the same last changes, and the next time it works."""
    fill(kept, 12)
    kept.rotate()
    fill(kept, 12)
    wanted = mirror(told(kept))
    kept._backend.p.keeper.call(kept._backend.p.compaction._begin_now)
    failing = Failing(monkeypatch, call, errno.EIO)
    with pytest.raises((OSError, journal.StorageError), match="Input/output error"):
        kept._backend.p.keeper.call(lambda: kept._backend.p.compaction._advance(60))
    assert failing.calls
    monkeypatch.undo()
    assert mirror(told(kept)) == wanted
    kept.compact()
    assert mirror(told(kept)) == wanted
    assert len(words(kept)) == 1


def test_a_failed_sync_of_the_logs_directory_is_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The segments that a new one stands for stay: a reopen has the same last changes, and compacts them."""
    with journal.open(tmp_path / "s") as store:
        kept = store.journal("pages", compact=True)
        fill(kept, 12)
        kept.rotate()
        fill(kept, 12)
        wanted = mirror(told(kept))
        kept._backend.p.keeper.call(kept._backend.p.compaction._begin_now)
        Failing(monkeypatch, "fsync", errno.EIO)
        with pytest.raises(journal.StoreFailed, match="Input/output error"):
            kept._backend.p.keeper.call(lambda: kept._backend.p.compaction._advance(60))
        monkeypatch.undo()
        with pytest.raises(journal.StoreFailed):
            kept.put("more")
    with journal.open(tmp_path / "s") as store:
        kept = store.journal("pages")
        assert mirror(told(kept)) == wanted
        kept.compact()
        assert mirror(told(kept)) == wanted
        assert store.check() == []


def test_a_damaged_segment_is_not_compacted(kept: journal.Journal, tmp_path: Path) -> None:
    """A record that cannot be read must not become one that was taken out."""
    fill(kept, 12)
    path = directory(kept) / f"{0:020d}.log"
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"?" + content[101:])
    with pytest.raises(LogDamaged, match="byte 0"):
        kept.compact()
    path.write_bytes(content)
    kept.compact()


def test_a_forked_child_leaves_what_is_being_written(kept: journal.Journal) -> None:
    """It drops its copy of the pass; the parent's goes on."""
    fill(kept)
    p = kept._backend.p
    p.keeper.call(p.compaction._begin_now)
    while not (directory(kept) / CONDENSED).exists():
        p.keeper.call(lambda: next(p.compaction._work))  # type: ignore[arg-type]
    child = os.fork()
    if child == 0:
        p.compaction._work = None
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert (directory(kept) / CONDENSED).exists()
    assert p.keeper.call(lambda: p.compaction._advance(60))
    assert len(words(kept)) == 1


def test_closing_ends_a_pass_that_somebody_waits_for(tmp_path: Path) -> None:
    """With the error of a closed store, and nothing half written."""
    store = journal.open(tmp_path / "s")
    pages = store.journal("pages", **SMALL)
    fill(pages)
    p = pages._backend.p
    p.keeper.call(p.compaction._begin_now)
    while not (directory(pages) / CONDENSED).exists():
        p.keeper.call(lambda: next(p.compaction._work))  # type: ignore[arg-type]
    store.close()
    with pytest.raises(StoreClosed):
        p.compaction._advance(60)
    assert not (directory(pages) / CONDENSED).exists()
    with journal.open(tmp_path / "s") as again:
        assert len(words(again.journal("pages"))) == 6
        assert again.check() == []


def test_wiped_bytes_are_gone(store: journal.Store, tmp_path: Path) -> None:
    """With wipe=True the old files are overwritten, although somebody has them open, and he reads on."""
    pages = store.journal("pages", **SMALL, wipe=True)
    fill(pages, 12)
    reader = Tail(pages._backend.p, Cursor(1, -1))
    seen = [event.cursor.offset for event in reader.page()]
    old = os.open(directory(pages) / f"{0:020d}.log", os.O_RDONLY)
    pages.compact()
    assert not os.pread(old, 1 << 20, 0).strip(b"\0")
    os.close(old)
    while page := reader.page():
        seen += [event.cursor.offset for event in page]
    assert seen[-1] == 11


@pytest.mark.alone(reason="merged journals have the setting together")
def test_a_compacted_log_survives_a_reopen(store: journal.Store, tmp_path: Path, clock: ManualClock) -> None:
    """And is compacted further there, together with what has come since."""
    path = tmp_path / "again.journal"
    with journal.open(path, clock=clock) as first:
        pages = first.journal("pages", **SMALL)
        fill(pages, 8)
        pages.compact()
    with journal.open(path, clock=clock) as again:
        pages = again.journal("pages")
        assert pages.settings.compact
        fill(pages, 2)
        assert [event.cursor.offset for event in told(pages)] == [7, 8, 9]
        pages.compact()
        assert skips(pages) == [(0, 9)]
        assert again.check(deep=True) == []


def test_a_crash_between_any_two_steps_leaves_every_offset(
    kept: journal.Journal, store: journal.Store, crashed: Copy
) -> None:
    """Copied after each step of a pass, which is what a kill leaves: the mirror is the same, and a pass finishes it."""
    fill(kept, 12)
    kept.put("a", 1)
    kept.rotate()
    fill(kept, 12, key="other")
    wanted = mirror(told(kept))
    p = kept._backend.p
    p.keeper.call(p.compaction._begin_now)
    copies = []
    seen: set[tuple[str, ...]] = set()

    def step() -> bool:
        try:
            next(p.compaction._work)  # type: ignore[arg-type]
        except StopIteration:
            p.compaction.close()
            return False
        return True

    while p.keeper.call(step):
        names = tuple(f"{f}{f.stat().st_ino}" for order in (1, 2) for f in sorted(directory(kept, order).iterdir()))
        if names not in seen:
            seen.add(names)
            copies.append(crashed(store))
    assert len(copies) >= 6
    for copy in copies:
        with journal.open(copy) as again:
            pages = again.journal("pages")
            assert mirror(told(pages)) == wanted
            assert again.check() == []
            pages.compact()
            assert [event.key for event in told(pages)] == ["hot", "a", "other"]
            assert again.check() == []
            assert not list(copy.rglob(CONDENSED))


def test_a_check_finds_a_change_that_is_missing(
    kept: journal.Journal, store: journal.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction that takes out too much does not go unnoticed."""
    fill(kept, 3)
    kept.put("a", 1)
    p = kept._backend.p
    with monkeypatch.context() as patch:
        patch.setattr("journal.core.log.compaction_rule.Latest.keeps", lambda self, digest, is_decisive: False)
        kept.compact()
    found = store.check()
    assert len(found) == 2 and all("has its data" in line for line in found)
    for key in ("a", "hot"):
        kept.delete(key)
    assert store.check() == []
    assert p.trouble is None
