"""journal generations, rotate, compact, pause, resume."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import journal
from tests.cli.conftest import Run

# --- generations, rotate ----------------------------------------------------------------------------------------------


def test_rotate_begins_a_generation_and_generations_lists_them(tmp_path: Path, run: Run) -> None:
    """With what keeps each."""
    store = str(tmp_path / "s")
    run("put", store, "pages", "a")
    assert run("rotate", store, "pages").out == "generation 2 is active\n"
    listed = run("generations", store, "pages", "--json").json
    assert [(g["order"], g["state"], g["entries"], g["kept_by"]) for g in listed] == [
        (1, "draining", 1, ["entries"]),
        (2, "active", 0, ["active"]),
    ]
    assert "kept by entries" in run("generations", store, "pages").out


def test_only_the_owner_rotates(tmp_path: Path, run: Run) -> None:
    """A store in use is refused, and so is a journal that is not there."""
    path = tmp_path / "s"
    with journal.open(path) as store:
        store.journal("pages").put("a")
        store.checkpoint()
        found = run("rotate", str(path), "pages")
        assert found.code == 1 and "StoreLocked" not in found.out and str(os.getpid()) in found.err
    assert run("generations", str(path), "nothing").code == 1


# --- compact, and `journal log` on what it leaves ---------------------------------------------------------------------


def prepare_compacted(path: Path) -> None:
    with journal.open(path) as store:
        pages = store.journal("pages", compact=True)
        for n in range(4):
            pages.put("hot", n)
        pages.put("a", 1)
        pages.put("gone", 1)
        pages.delete("gone")


def test_compact_says_what_was_saved(tmp_path: Path, run: Run) -> None:
    """For people and as JSON; a second time there is nothing left to save."""
    store = tmp_path / "s"
    prepare_compacted(store)
    found = run("compact", str(store), "pages", "--json").json
    assert [(f["records_before"], f["records_after"]) for f in found] == [(7, 5)]
    assert run("compact", str(store), "pages").out.startswith("records 5 -> 5, bytes ")
    assert run("check", str(store)).code == 0


def test_only_a_journal_that_keeps_its_log_is_compacted(tmp_path: Path, run: Run) -> None:
    """Others are refused, and so is a store in use."""
    store = str(tmp_path / "s")
    run("put", store, "pages", "a")
    found = run("compact", store, "pages")
    assert found.code == 1 and "compact=True" in found.err
    with journal.open(tmp_path / "s") as opened:
        assert run("compact", store, "pages").code == 1
        opened.journal("small", merged=True)
    assert "store.merged(compact=True)" in run("compact", store, "small").err


def test_the_log_shows_what_was_taken_out(tmp_path: Path, run: Run) -> None:
    """One line for each run; the oldest and the newest change are changes."""
    store = tmp_path / "s"
    prepare_compacted(store)
    run("compact", str(store), "pages")
    found = run("log", "show", str(store), "--json").json
    assert [(f["offset"], f["op"], f.get("changes")) for f in found] == [
        (0, "skip", 3),
        (3, "update", None),
        (4, "insert", None),
        (5, "skip", 1),
        (6, "delete", None),
    ]
    assert "3 changes were taken out" in run("log", "show", str(store)).out
    assert run("log", "oldest", str(store), "--json").json[0]["offset"] == 3
    assert run("log", "newest", str(store), "--json").json[0]["offset"] == 6
    shown = run("log", "show", str(store), "--from", "1", "--json").json
    assert [f["offset"] for f in shown] == [3, 4, 5, 6]


# --- pause, resume ----------------------------------------------------------------------------------------------------


def test_a_paused_journal_hands_nothing_out(run: Run, path: Path, check: Callable[[], None]) -> None:
    """Until it is resumed; the flag says why, and is not lowered with others."""
    assert run("pause", path, "pages", "the mail server is down", "--json").json == [
        {"journal": "pages", "paused": True}
    ]
    assert run("claim", path, "pages").out == "nothing is due\n"
    assert run("stat", path, "--json").json[0]["journals"]["pages"]["paused"]["reason"] == "the mail server is down"
    assert "paused (1x): the mail server is down" in run("flags", path, "--lower").out
    assert "paused" in run("flags", path).out
    assert run("resume", path, "pages").out == "resumed pages\n"
    assert run("resume", path, "pages", "--json").json == [{"journal": "pages", "resumed": False}]
    assert run("flags", path).out == ""
    assert len(run("claim", path, "pages", "--json").json) == 1
    check()
