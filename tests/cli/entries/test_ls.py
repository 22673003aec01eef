"""journal ls."""

from __future__ import annotations

from pathlib import Path

import journal
from tests.cli.conftest import Run


def test_ls_lists_journals(run: Run, path: Path) -> None:
    """Without a journal: their names."""
    assert run("ls", path) == (0, "pages\n", "")
    assert run("ls", path, "--json").json == [{"journal": "pages"}]


def test_ls_lists_entries_in_the_order_of_work(run: Run, path: Path) -> None:
    """A line each; as JSON all columns."""
    lines = run("ls", path, "pages").out.splitlines()
    assert [line[:5] for line in lines] == ["W  10", "W  20", "W 100"]
    found = run("ls", path, "pages", "--json").json
    assert [line["key"] for line in found] == ["a", {"hex": "ff"}, "b"]
    columns = {"key", "data", "priority", "process_date", "insertion_date", "expiration", "status", "timeouts", "owner"}
    assert columns | {"version"} <= found[0].keys()


def test_ls_filters(run: Run, path: Path) -> None:
    """Status, dates, a limit."""
    assert run("claim", path, "pages").code == 0
    assert [x["key"] for x in run("ls", path, "pages", "--status", "processing", "--json").json] == ["a"]
    assert len(run("ls", path, "pages", "--status", "waiting", "--json").json) == 2
    assert len(run("ls", path, "pages", "--limit", 1, "--json").json) == 1
    assert len(run("ls", path, "pages", "--limit", 0, "--json").json) == 3
    b = run("peek", path, "pages", "b", "--json").json[0]["process_date"]
    assert [x["key"] for x in run("ls", path, "pages", "--since", b, "--json").json] == ["b"]
    assert len(run("ls", path, "pages", "--until", b, "--json").json) == 2
    assert run("ls", path, "pages", "--status", "lost").code == 2
    assert run("ls", path, "pages", "--since", "yesterday").code == 2
    assert run("ls", path, "pages", "--limit", "-1").code == 2


def test_ls_lists_the_buried(run: Run, path: Path) -> None:
    """With their reasons."""
    (lease,) = run("claim", path, "pages", "--json").json
    assert run("bury", path, "pages", lease["token"], "bad").code == 0
    (line,) = run("ls", path, "pages", "--buried", "--json").json
    assert (line["key"], line["reason"]) == ("a", "bad")
    assert "bad" in run("ls", path, "pages", "--buried").out


def test_ls_of_what_is_missing(run: Run, path: Path, tmp_path: Path) -> None:
    """Exit code 1, nothing made."""
    assert run("ls", path, "other").code == 1
    assert run("ls", tmp_path / "missing").code == 1
    assert not (tmp_path / "missing").exists()


def test_ls_of_an_empty_store(run: Run, tmp_path: Path) -> None:
    """No line, no error."""
    journal.open(tmp_path / "empty").close()
    assert run("ls", tmp_path / "empty") == (0, "", "")
