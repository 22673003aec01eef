"""Loads whose parts come one by one: begun, written by many, committed as one change or given up."""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.core.loads import session
from journal.engine.files.layout import LOADS
from journal.engine.loads import staging
from journal.loads import PartWriter
from journal.testing import ManualClock
from tests.engine.helpers import Failing, must_end
from tests.engine.loads.blocks import block, counts, many

Copy = Callable[[journal.Store], Path]


def left(store: journal.Store) -> list[Path]:
    """What lies in the store of loads."""
    return sorted((store.path / LOADS).rglob("*"))


def test_parts_become_one_change(store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are named; the others are forgotten, and nothing is left of any."""
    monkeypatch.setattr(session.LoadPart.__init__, "__defaults__", (100,))
    load = pages.load_begin()
    with load.part("a-1") as part:
        part.write(many(50))
    with pages.load_part(load.id, "b-1") as part:
        part.write(many(50, 50))
        part.write(many(50, 100))
    assert part.close()[0] == 100
    with load.part("a-2") as part:
        part.write(many(50))
    assert len(left(store)) == 4
    loaded = load.commit(["a-2", "b-1"], on_conflict="error", once=("n", 1))
    assert counts(loaded) == {"inserted": 150}
    assert left(store) == []
    assert pages.load_commit(load.id, ["a-2", "b-1"]) == loaded
    assert pages.load_abort(load.id) is False
    assert pages.count() == 150


def test_pieces_may_come_twice(store: journal.Store, pages: journal.Journal, tmp_path: Path) -> None:
    """The same bytes at the same place are one piece; others, or a gap, are refused."""
    with PartWriter(tmp_path / "p") as part:
        part.write(many(9))
    whole = (tmp_path / "p").read_bytes()
    load = pages.load_begin()
    for at, end in ((0, 10), (0, 10), (0, 30), (10, 30), (30, 40), (5, 50), (50, len(whole))):
        pages._backend.loads.piece(load.id, "x", at, whole[at:end])
    for at, piece in ((len(whole) + 1, b"x"), (0, b"other"), (-1, b"x")):
        with pytest.raises(journal.Invalid):
            pages._backend.loads.piece(load.id, "x", at, piece)
    assert load.commit(["x"]).inserted == 9


def test_two_attempts_need_two_names(pages: journal.Journal) -> None:
    """The second one is refused when it has something else to say."""
    load = pages.load_begin()
    with load.part("x") as one:
        one.write(many(5))
    two = load.part("x")
    two.write(many(6))
    with pytest.raises(journal.Invalid, match="its own name"):
        two.close()
    assert load.commit(["x"]).inserted == 5


def test_a_part_that_was_not_closed_does_not_count(store: journal.Store, pages: journal.Journal) -> None:
    """A commit that names it is refused, and ends the load."""
    load = pages.load_begin()
    with contextlib.suppress(RuntimeError), load.part("x") as part:
        part.write(many(5))
        raise RuntimeError
    with pytest.raises(journal.Invalid, match="given up"):
        part.close()
    with load.part("y") as part:
        part.write(many(5))
    part = load.part("z")
    part.write(many(5))
    part._send_piece()
    with pytest.raises(journal.Invalid, match="cut short"):
        load.commit(["y", "z"])
    assert (pages.count(), left(store)) == (0, [])
    with pytest.raises(journal.NotFound):
        part.close()


def test_a_load_is_given_up(store: journal.Store, pages: journal.Journal) -> None:
    """By hand, by leaving its block, and never by accident after its commit."""
    with pages.load_begin() as load:
        load.part("x").close()
        assert left(store) != []
    assert left(store) == []
    with pytest.raises(journal.NotFound, match="begin another one"):
        load.part("x")
    with pytest.raises(journal.NotFound):
        load.commit([])
    load.abort()
    with pages.load_begin() as load:
        load.part("x").close()
        assert load.commit(["x"]).inserted == 0


@pytest.mark.parametrize("error", [journal.KeyExists, journal.Invalid])
def test_a_refused_load_leaves_nothing(store: journal.Store, pages: journal.Journal, error: type[Exception]) -> None:
    """No entry, no record, no file."""
    pages.put("there")
    load = pages.load_begin()
    with load.part("x") as part:
        part.write(block(("new", 1), ("there" if error is journal.KeyExists else "", 1)))
    with pytest.raises(error):
        load.commit(["x"], on_conflict="error", once=("n", 1))
    assert (pages.count(), pages.statistics()["next_offset"], left(store)) == (1, 1, [])


def test_a_load_of_a_full_store_can_be_committed_again(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts wait until there is room."""
    load = pages.load_begin()
    with load.part("x") as part:
        part.write(many(5))
    disk = Failing(monkeypatch, "pwrite", errno.ENOSPC)
    with pytest.raises(journal.StoreFull):
        load.commit(["x"])
    full = load.part("y")
    full.write(many(5, 5))
    with pytest.raises(journal.StoreFull):
        full.close()
    disk.error = None
    full.close()
    assert load.commit(["x", "y"]).inserted == 10


def test_a_repeated_commit_with_a_number(store: journal.Store, pages: journal.Journal) -> None:
    """Its load is not known any more, or is another one: the number tells."""
    pages.load([many(3)], once=("n", 1))
    load = pages.load_begin()
    with load.part("x") as part:
        part.write(many(9))
    assert load.commit(["x"], once=("n", 1)).is_repeated
    assert (pages.count(), left(store)) == (3, [])
    assert pages.load_commit("0" * 32, ["x"], once=("n", 1)).is_repeated
    with pytest.raises(journal.NotFound):
        pages.load_commit("0" * 32, ["x"], once=("n", 2))


def test_silence_ends_a_load(store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """After an hour; what was heard of lives on."""
    silent, alive = pages.load_begin(), pages.load_begin()
    clock.advance(staging.SILENCE_MS - 1)
    alive.part("x").close()
    clock.advance(1)
    pages.load_begin().abort()
    with pytest.raises(journal.NotFound):
        silent.part("x")
    assert alive.commit(["x"]).inserted == 0


def test_a_crash_and_a_close_leave_nothing(tmp_path: Path, crashed: Copy, clock: ManualClock) -> None:
    """The next open removes what a crash left."""
    with journal.open(tmp_path / "s", clock=clock) as opened:
        load = opened.journal("pages").load_begin()
        load.part("x").close()
        copy = crashed(opened)
        assert (copy / LOADS).exists()
    assert not (tmp_path / "s" / LOADS).exists()
    with pytest.raises(journal.StoreClosed):
        load.part("y")
    with journal.open(copy, clock=clock) as again:
        assert not (copy / LOADS).exists()
        with pytest.raises(journal.NotFound):
            again.journal("pages").load_part(load.id, "x")


def test_a_load_belongs_to_its_journal(store: journal.Store, pages: journal.Journal) -> None:
    """Others do not find it; it goes with its journal."""
    load = pages.load_begin()
    other = store.journal("other")
    for call in (lambda: other.load_part(load.id, "x"), lambda: other.load_commit(load.id, [])):
        with pytest.raises(journal.NotFound):
            call()
    assert other.load_abort(load.id) is False
    gone = other.load_begin()
    store.drop("other")
    with pytest.raises(journal.NotFound):
        store.journal("other").load_part(gone.id, "x")
    load.abort()


def test_limits(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of loads, of their parts and of their bytes; what ends gives its room back."""
    monkeypatch.setattr(staging, "STAGED_LOADS_MAX", 2)
    monkeypatch.setattr(staging, "STAGED_PARTS_MAX", 1)
    monkeypatch.setattr(staging, "STAGED_BYTES_MAX", 300)
    one, two = pages.load_begin(), pages.load_begin()
    with pytest.raises(journal.Busy, match="2 loads"):
        pages.load_begin()
    one.part("x").close()
    with pytest.raises(journal.Busy, match="1 parts"):
        one.part("y")
    large = two.part("x")
    large.write(many(100))
    with pytest.raises(journal.Busy, match="300 at most"):
        large.close()
    one.abort()
    three = pages.load_begin()
    with three.part("x") as part:
        part.write(many(3))
    assert three.commit(["x"]).inserted == 3


@pytest.mark.parametrize("name", ["", ".x", "a/b", "..", "x" * 201, 7, None, "ä"])
def test_names_of_parts(pages: journal.Journal, name: Any) -> None:
    """A part's name is that of a file, and of nothing else."""
    load = pages.load_begin()
    with pytest.raises(journal.Invalid):
        load.part(name)
    with pytest.raises(journal.Invalid):
        load.commit([name])
    load.abort()


@pytest.mark.parametrize("parts", ["x", 7, ["x", "x"]])
def test_names_of_a_commit(pages: journal.Journal, parts: Any) -> None:
    """A list, each name once; a name that is not there is not the end of the load."""
    load = pages.load_begin()
    load.part("x").close()
    with pytest.raises(journal.Invalid):
        load.commit(parts)
    with pytest.raises(journal.NotFound, match="no part 'y'"):
        load.commit(["y"])
    with pytest.raises(journal.Invalid, match="load_begin"):
        pages.load_part("../x", "x")
    assert load.commit(["x"]).inserted == 0


def test_a_load_is_committed_by_one(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes meanwhile is told; nobody waits for a long commit."""
    load = pages.load_begin()
    with load.part("x") as part:
        part.write(many(5))
    entered, go_on = threading.Event(), threading.Event()
    loads = pages._backend.loads
    real = loads._load_checked

    def slow(*args: Any) -> journal.Loaded:
        entered.set()
        assert go_on.wait(100)
        return real(*args)

    monkeypatch.setattr(loads, "_load_checked", slow)
    results: list[journal.Loaded] = []
    thread = threading.Thread(target=lambda: results.append(load.commit(["x"])))
    thread.start()
    assert entered.wait(100)
    for call in (lambda: load.commit(["x"]), lambda: load.part("y"), load.abort):
        with pytest.raises(journal.Busy, match="being committed"):
            must_end(call)
    go_on.set()
    thread.join(100)
    assert [loaded.inserted for loaded in results] == [5]


def test_a_readonly_store_refuses(tmp_path: Path) -> None:
    """Only its owner has parts."""
    with journal.open(tmp_path / "s") as opened:
        opened.journal("pages").put("a")
    with journal.open(tmp_path / "s", readonly=True) as look, pytest.raises(journal.ReadOnly):
        look.journal("pages").load_begin()
