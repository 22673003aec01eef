"""journal backup and journal restore."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import journal
from journal.cli.meter import Meter
from tests.cli.conftest import Run


def test_backup_and_restore(run: Run, path: Path, tmp_path: Path) -> None:
    """The words of the report, the second one smaller, and a store that is clean."""
    ran = run("backup", path, tmp_path / "b")
    assert ran.code == 0 and "backup-000001" in ran.out and "verified" in ran.out and ran.err == ""
    (again,) = run("backup", path, tmp_path / "b", "--json").json
    assert again["copied_files"] < again["files"] and again["journals"].keys() == {"pages"}
    (made,) = run("restore", tmp_path / "b", tmp_path / "r", "--json").json
    assert made["path"] == str(tmp_path / "r") and made["store"] != again["store"]
    assert run("check", tmp_path / "r", "--deep").code == 0
    assert run("ls", tmp_path / "r", "pages").out == run("ls", path, "pages").out


def test_what_is_refused(run: Run, path: Path, tmp_path: Path) -> None:
    """Clear words, exit codes, and nothing made."""
    assert run("restore", tmp_path / "none", tmp_path / "r").code == 1
    assert run("backup", tmp_path / "none", tmp_path / "b").code == 1
    assert run("backup", path, path / "inside").code == 2
    assert run("backup", path, tmp_path / "b").code == 0
    assert run("restore", tmp_path / "b", path).code == 2
    assert not (tmp_path / "r").exists()


def test_through_the_daemon(run: Run, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a store that is served the daemon makes it; a relative path is one of this directory."""
    monkeypatch.chdir(tmp_path)
    with journal.open(path) as store, store.serve():
        (made,) = run("backup", path, "b", "--json").json
        assert made["path"] == str(tmp_path / "b" / "backup-000001")
    assert run("restore", "b", "r").code == 0


class Terminal(io.StringIO):
    """One that people look at."""

    def isatty(self) -> bool:
        return True


def test_the_bar_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """It grows, is taken away at the end, and is not there for programs."""
    for is_quiet in (False, True):
        terminal = Terminal()
        monkeypatch.setattr("sys.stderr", terminal)
        with Meter(is_quiet=is_quiet) as meter:
            for done in (0, 1, 2, 2, 4):
                meter.show(done, 4)
        shown = terminal.getvalue()
        assert (shown == "") if is_quiet else (shown.count("\r") == 6 and "100 %" in shown and " 50 %" in shown)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with Meter(is_quiet=False) as meter:
        meter.show(1, 2)
