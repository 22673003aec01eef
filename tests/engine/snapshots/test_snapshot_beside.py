"""Snapshots beside others who work: a writer, an owner in another process, a store that is being closed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.engine import readonly as looking
from journal.engine.snapshots import take
from journal.engine.snapshots.reader import Copied
from tests.api.reads.test_snapshot import shown

END_S = 100.0
PAIRS = 40


def write_pairs(store: journal.Store, pages: journal.Journal, turns: Iterable[int], stop: threading.Event) -> None:
    """Pairs of keys that always change together: in one record each, over rotations and checkpoints."""
    for turn in turns:
        if stop.is_set():
            return
        n = turn % PAIRS
        pages.put_many(
            [journal.Put(f"{side}{n}", turn, process_date=1000 + turn, insertion_date=turn) for side in "ab"]
        )
        if turn % 3 == 0:
            store.checkpoint()
        if turn % 23 == 0:
            pages.rotate()


def check_pairs(found: dict[str, int]) -> None:
    """All keys, both of each pair, with the data of the last turns: nothing of a later one without all of the earlier ones."""
    last = max(found.values())
    turns = range(last - PAIRS + 1, last + 1)
    assert found == {f"{side}{turn % PAIRS}": turn for turn in turns for side in "ab"}


def test_a_snapshot_is_of_one_moment(tmp_path: Path) -> None:
    """Beside a writer that changes pairs of entries, over generations that come and go."""
    with journal.open(tmp_path / "s", durability="none") as store:
        pages = store.journal("pages")
        write_pairs(store, pages, range(1, 200), threading.Event())
        stop = threading.Event()
        writer = threading.Thread(target=write_pairs, args=(store, pages, range(200, 1 << 30), stop))
        writer.start()
        try:
            before = journal.Cursor(1, -1)
            for _ in range(30):
                with pages.snapshot() as shot:
                    found = shown(shot.parts(2))
                    check_pairs(found)
                    assert len(found) == shot.size and shot.cursor >= before
                    before = shot.cursor
        finally:
            stop.set()
            writer.join(END_S)
        assert not writer.is_alive() and store.check() == []


LOOKER = """
import sys
import journal
from journal.engine import readonly as looking
from journal.engine.snapshots import take
from tests.api.reads.test_snapshot import shown
from tests.engine.snapshots.test_snapshot_beside import check_pairs
take.LOOK_S = 600.0
with journal.open(sys.argv[1], readonly=True) as store:
    pages = store.journal("pages")
    print("ready", flush=True)
    for _ in range(25):
        with pages.snapshot() as shot:
            found = shown(shot.parts(2))
            check_pairs(found)
            assert len(found) == shot.size
    print("done", flush=True)
"""


def test_a_look_is_of_one_moment(tmp_path: Path) -> None:
    """Beside an owner in another process, who is in the middle of checkpoints and rotations (H1)."""
    with journal.open(tmp_path / "s", durability="none") as store:
        pages = store.journal("pages")
        write_pairs(store, pages, range(1, 200), threading.Event())
        stop = threading.Event()
        writer = threading.Thread(target=write_pairs, args=(store, pages, range(200, 1 << 30), stop))
        writer.start()
        try:
            done = subprocess.run(
                [sys.executable, "-c", LOOKER, tmp_path / "s"], capture_output=True, text=True, check=False
            )
        finally:
            stop.set()
            writer.join(END_S)
        assert (done.stdout, done.stderr) == ("ready\ndone\n", "")
        assert not writer.is_alive() and not (tmp_path / "s" / "_snapshots").exists()


CUT = """
import os, sys
import journal
from journal.engine.files.lmdb import LmdbFile
store = journal.open(sys.argv[1])
pages = store.journal("pages")
pages.put_many([journal.Put(f"k{n}", n) for n in range(10)])
pages.rotate()
active = pages._backend.p.state.file
commit = LmdbFile.commit
def cut(file, *args):
    if file is active:
        os._exit(9)
    commit(file, *args)
LmdbFile.commit = cut
pages.delete("k3")
store.checkpoint()
"""


@pytest.mark.alone(reason="merged journals are opened with others in the program")
def test_a_look_at_a_checkpoint_that_was_cut_short_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older file is ahead for ever: a clear error, until an owner has recovered (H1)."""
    monkeypatch.setattr(looking, "LOOK_S", 0.05)
    assert subprocess.run([sys.executable, "-c", CUT, tmp_path / "s"], check=False).returncode == 9
    with journal.open(tmp_path / "s", readonly=True) as look:
        with pytest.raises(journal.StorageError, match="in the middle of a checkpoint"):
            look.journal("pages")
        assert not (tmp_path / "s" / "_snapshots").exists()
    with journal.open(tmp_path / "s") as store, store.journal("pages").snapshot() as shot:
        assert (shot.size, "k3" in shown(shot.parts(1))) == (9, False)
    with journal.open(tmp_path / "s", readonly=True) as look, look.journal("pages").snapshot() as shot:
        assert shot.size == 9


class Held:
    """Holds the copying up until it is told to go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()
        copy_to = take._Reader.copy_to

        def held(reader: Any, directory: Path) -> Copied:
            self.began.set()
            assert self.go_on.wait(END_S)
            return copy_to(reader, directory)

        monkeypatch.setattr(take._Reader, "copy_to", held)


def test_nobody_waits_for_the_copies(
    pages: journal.Journal, store: journal.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Puts, claims, checkpoints and rotations go on; rows that are empty meanwhile are given up afterwards (H2)."""
    pages.put_many([journal.Put(f"k{n}", n) for n in range(10)])
    pages.rotate()
    held = Held(monkeypatch)
    taken: list[Any] = []
    taker = threading.Thread(target=lambda: taken.append(pages.snapshot()))
    taker.start()
    assert held.began.wait(END_S)
    pages.done_many(pages.claim_many(10))
    store.checkpoint()
    assert pages.count() == 0
    assert len(pages._backend.p.rows_now()) == 2
    held.go_on.set()
    taker.join(END_S)
    with taken[0] as shot:
        assert shown(shot.parts(2)) == {f"k{n}": n for n in range(10)}
    pages.put("next")
    store.checkpoint()
    assert len(pages._backend.p.rows_now()) == 1


def test_closing_waits_for_copies_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LMDB must not lose its map under them (H2)."""
    store = journal.open(tmp_path / "s")
    pages = store.journal("pages")
    pages.put("a", 1)
    held = Held(monkeypatch)
    taken: list[Any] = []
    taker = threading.Thread(target=lambda: taken.append(pages.snapshot(directory=tmp_path / "out")))
    taker.start()
    assert held.began.wait(END_S)
    closer = threading.Thread(target=store.close)
    closer.start()
    known = pages._backend.p.snapshots
    with known._changed:
        assert known._changed.wait_for(lambda: known._is_closed, END_S)
    assert closer.is_alive()
    held.go_on.set()
    for thread in (closer, taker):
        thread.join(END_S)
        assert not thread.is_alive()
    with taken[0] as shot:
        assert shown(shot.parts(1)) == {"a": 1}
    with pytest.raises(journal.StoreClosed):
        pages.snapshot()


class AtFirst:
    """Does something once, before or after the beginning of the first read transaction."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, do: Callable[[], object], *, is_before: bool = False) -> None:
        self.is_done = False
        begin = take._Reader.__init__

        def begun(reader: Any, rows: Any) -> None:
            is_first, self.is_done = not self.is_done, True
            if is_first and is_before:
                do()
            begin(reader, rows)
            if is_first and not is_before:
                do()

        monkeypatch.setattr(take._Reader, "__init__", begun)


def test_nothing_is_committed_between_the_transactions(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner begins them where commits are made: one that is asked for meanwhile comes afterwards."""
    pages.put("a", 1)
    pages.put("stays", 1)
    pages.rotate()

    def change() -> None:
        pages.put("a", 2)
        store.checkpoint()

    changer = threading.Thread(target=change)

    def begin() -> None:
        changer.start()
        changer.join(0.3)  # it cannot end before we are done

    AtFirst(monkeypatch, begin)
    with pages.snapshot() as shot:
        assert shown(shot.parts(1)) == {"a": 1, "stays": 1}
    changer.join(END_S)
    with pages.snapshot() as shot:
        assert shown(shot.parts(1)) == {"a": 2, "stays": 1}


OWNER = """
import sys
import journal
with journal.open(sys.argv[1]) as store:
    pages = store.journal("pages")
    pages.put("a", 1)
    pages.put("stays", 1)
    if sys.argv[2] == "checkpoint":
        pages.rotate()
    store.checkpoint()
    print("ready", flush=True)
    sys.stdin.readline()
    if sys.argv[2] == "rotate":
        pages.rotate()
    pages.put("a", 2)
    store.checkpoint()
    print("done", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("what", ["checkpoint", "rotate"])
def test_a_look_begins_again_after_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """One that came between its transactions, or that began a generation which it does not know of (H1)."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, tmp_path / "s", what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdin is not None and owner.stdout is not None
        says, hears = owner.stdout, owner.stdin
        assert says.readline() == "ready\n"

        def change() -> None:
            hears.write("now\n")
            hears.flush()
            assert says.readline() == "done\n"

        with journal.open(tmp_path / "s", readonly=True) as look:
            pages = look.journal("pages")
            at_first = AtFirst(monkeypatch, change, is_before=what == "rotate")
            with pages.snapshot() as shot:
                assert at_first.is_done and shown(shot.parts(1)) == {"a": 2, "stays": 1}
        hears.close()
    assert owner.returncode == 0
