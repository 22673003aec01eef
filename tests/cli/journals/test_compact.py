"""`journal compact`, and `journal log` on what it leaves."""

from __future__ import annotations

from pathlib import Path

import journal
from tests.cli.conftest import Run


def prepare(path: Path) -> None:
    with journal.open(path) as store:
        pages = store.journal("pages", compact=True)
        for n in range(4):
            pages.put("hot", n)
        pages.put("a", 1)
        pages.put("gone", 1)
        pages.delete("gone")


def test_it_says_what_was_saved(tmp_path: Path, run: Run) -> None:
    """For people and as JSON; a second time there is nothing left to save."""
    store = tmp_path / "s"
    prepare(store)
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
    prepare(store)
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
