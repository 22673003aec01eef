"""The files of generations: what becomes of empty ones, and what a crash may leave."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal import Put
from journal.engine import catalog
from journal.engine.files.lmdb import LmdbFile
from journal.testing import ManualClock
from tests.engine.generations.test_generations import live
from tests.engine.helpers import own_pipeline
from tests.top import top


@pytest.mark.parametrize("on_empty", ["delete", "reset", "truncate"])
@pytest.mark.parametrize("wipe", [False, True])
def test_an_empty_file_is_deleted_kept_or_cut(tmp_path: Path, on_empty: str, wipe: bool) -> None:
    """And the next generation works in a file that was used before, without anything of it."""
    path = tmp_path / "s"
    with journal.open(path, durability="interval") as store:
        pages = store.journal("pages", on_empty=on_empty, wipe=wipe)
        for period in range(4):
            pages.put_many([Put(f"{period}-{i}", b"secret" * 100) for i in range(300)])
            pages.rotate()
            pages.done_many(pages.claim_many(1000))
            store.checkpoint()
        own_pipeline(pages).generations.disposal.close()
        assert live(pages) == [5] and pages.count() == 0
        pages.put("last", 1)
        assert store.check() == []
        names = sorted(os.listdir(path / top()))
        assert names == (["000005"] if on_empty == "delete" else ["000005", "spare.mdb"])
        if on_empty != "delete" and wipe:
            assert b"secret" not in (path / top() / "spare.mdb").read_bytes()
    with journal.open(path) as store:
        pages = store.journal("pages")
        assert [e.key for e in pages.scan()] == ["last"]
        pages.rotate()
        assert pages.count() == 1
        assert store.check() == []


def test_readers_of_an_old_file_are_not_harmed(tmp_path: Path) -> None:
    """A look that has the file open reads on after its generation is gone, and then sees what there is."""
    path = tmp_path / "s"
    with journal.open(path) as store:
        pages = store.journal("pages", on_empty="reset", wipe=True)
        pages.put_many([Put(f"k{i}", i) for i in range(500)])
        store.checkpoint()
        script = (
            "import journal, sys\nwith journal.open(sys.argv[1], readonly=True) as s:\n p = s.journal('pages')\n"
            " rows = p.scan(); first = next(rows).key; print(first, flush=True); sys.stdin.readline()\n"
            " print(p.count(), flush=True)\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as reader:
            assert reader.stdin is not None and reader.stdout is not None
            assert reader.stdout.readline().startswith("k")
            pages.rotate()
            pages.done_many(pages.claim_many(500))
            pages.put("new")
            store.checkpoint()
            store.checkpoint()
            own_pipeline(pages).generations.disposal.close()
            assert reader.communicate("\n", timeout=300)[0] == "1\n"
        assert reader.returncode == 0


def test_reopen_and_crash_over_generations(
    tmp_path: Path, clock: ManualClock, crashed: Callable[[journal.Store], Path]
) -> None:
    """What was there before a kill is there after it, in all generations."""
    with journal.open(tmp_path / "s", clock=clock) as store:
        pages = store.journal("pages")
        for period in range(3):
            pages.put_many([Put(f"{period}-{i}", i, delay="1h" if i % 2 else 0) for i in range(20)])
            pages.rotate()
        leases = pages.claim_many(7, lease="1h", consumer="c")
        leases[0].done()
        leases[1].bury("why")
        pages.put("0-1", "again")
        expected = {e.key: e for e in pages.scan()}
        copies = [crashed(store)]
        store.checkpoint()
        pages.put("after")
        copies.append(crashed(store))
    for number, copy in enumerate(copies):
        with journal.open(copy, clock=clock) as store:
            pages = store.journal("pages")
            found = {e.key: e for e in pages.scan()}
            assert found.pop("after", None) is None or number == 1
            assert found == expected
            assert len(pages.leases(consumer="c")) == 5
            pages.done(leases[0].token)
            assert store.check() == []


def test_a_file_that_is_ahead_of_the_replay(tmp_path: Path, clock: ManualClock) -> None:
    """A crash in the middle of a checkpoint: the older rows have what the active ones have not."""
    path, copy = tmp_path / "s", tmp_path / "copy"
    with journal.open(path, clock=clock) as store:
        pages = store.journal("pages", timeouts_max=0)
        pages.put_many([Put(f"k{i}", i, owner="g" if i % 2 else None) for i in range(20)])
        pages.put("gone", expiration=clock.now() + 10)
        pages.rotate()
        pages.put("active")
        store.checkpoint()
        leases = {str(lease.key): lease for lease in pages.claim_many(100, lease="1s")}
        for key, act in {
            "k0": lambda lease: lease.done(), "k1": lambda lease: lease.done(),
            "k2": lambda lease: lease.release(), "k3": lambda lease: lease.release(delay="1h"),
            "k4": lambda lease: lease.bury("x"), "k5": lambda lease: lease.extend("1h"),
            "active": lambda lease: lease.done(),
        }.items():  # fmt: skip
            act(leases[key])
        assert pages.put("k6", "queued").outcome == "queued"
        leases["k6"].done()
        assert pages.put("k7", "queued", owner="g").outcome == "queued"
        pages.put("k0", "once more")
        clock.advance(1500)
        pages.put("k8", "merged")
        pages.delete("k9", owner="g")
        expected = [(e.key, e.data, e.status, e.version, e.timeouts) for e in pages.scan()]
        buried = [b.entry.key for b in pages.buried()]
        before = (path / f"{top()}/000002/rows.mdb").read_bytes()
        store.checkpoint()
        shutil.copytree(path, copy)
        (copy / f"{top()}/000002/rows.mdb").write_bytes(before)  # the active one's commit was lost
    with journal.open(copy, clock=clock) as store:
        pages = store.journal("pages")
        assert [(e.key, e.data, e.status, e.version, e.timeouts) for e in pages.scan()] == expected
        assert [b.entry.key for b in pages.buried()] == buried
        assert store.check() == []


def test_leftovers_of_a_rotation_are_removed(tmp_path: Path) -> None:
    """Files that the catalog does not name; anything else is refused."""
    path = tmp_path / "s"
    with journal.open(path) as store:
        store.journal("pages").put("a")
    for name in ("next", "000002", "000007.gone", "000007-log.gone", "000007-rows.gone"):
        os.makedirs(path / top() / name / "log", mode=0o700)
    with journal.open(path) as store:
        pages = store.journal("pages")
        assert pages.count() == 1 and sorted(os.listdir(path / top())) == ["000001"]
    os.makedirs(path / top() / "strange", mode=0o700)
    with journal.open(path) as store, pytest.raises(journal.StorageError, match="strange"):
        store.journal("pages")


def test_a_failed_sync_before_a_generation_is_given_up_is_final(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next sync would succeed without having written anything: what rests on it must stay."""
    path = tmp_path / "s"
    with journal.open(path) as store:
        pages = store.journal("pages")
        pages.put("a")
        pages.rotate()
        pages.move("a", priority=1)

        def sync(file: LmdbFile) -> None:
            if file is pages._backend.p.state.file:
                raise journal.StoreDamaged(f"cannot sync {file.path}: Input/output error")

        monkeypatch.setattr(LmdbFile, "sync", sync)
        with pytest.raises(journal.StorageError, match="cannot sync"):
            store.checkpoint()
        monkeypatch.undo()
        with pytest.raises(journal.StoreFailed):
            pages.put("b")
        assert (path / f"{top()}/000001/rows.mdb").exists()
    with journal.open(path) as store:
        assert [e.priority for e in store.journal("pages").scan()] == [1]
        assert store.check() == []


def test_a_long_list_of_generations_is_kept_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner does not read back what it wrote: settings, rotations, a drop and a reopen all see the last of it."""
    monkeypatch.setattr(catalog, "LONG", 2)
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        for n in range(4):
            pages.put(f"k{n}")
            pages.rotate()
        store.journal("pages", timeouts_max=9)
        pages.rotate()
        expected = [(g.order, g.state) for g in pages.generations()]
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        assert [(g.order, g.state) for g in pages.generations()] == expected
        assert pages.settings.timeouts_max == 9 and pages.count() == 4
        assert store.check() == []
        store.drop("pages")
        assert store.journals() == []
        assert store.journal("pages").count() == 0
