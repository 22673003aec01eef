"""journal stat, flags, check, drop, backup, restore."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import journal
from journal.cli import main
from journal.cli.meter import Meter
from journal.testing import ManualClock
from tests.cli.conftest import Run

# --- stat, flags ------------------------------------------------------------------------------------------------------


@pytest.fixture
def flagged(path: Path) -> Path:
    """A journal whose entry timed out once too often."""
    clock = ManualClock(1_700_000_000_000)  # before now, or the clock was set back, which is a flag too
    with journal.open(path, clock=clock) as opened:
        late = opened.journal("late", timeouts_max=0)
        late.put("x")
        assert late.claim(lease=1) is not None
        clock.advance(1)
        assert late.count() == 0
    return path


def test_stat_shows_numbers(run: Run, path: Path) -> None:
    """Of each journal, for people and as JSON."""
    ran = run("stat", path)
    assert ran.code == 0
    assert "pages" in ran.out
    (line,) = run("stat", path, "--json").json
    numbers = line["journals"]["pages"]
    assert (numbers["entries"], numbers["waiting"], numbers["processing"], line["flags"]) == (3, 3, 0, 0)


def test_stat_of_what_is_missing(run: Run, tmp_path: Path) -> None:
    """Exit code 1 and no store is made."""
    ran = run("stat", tmp_path / "missing", "--json")
    assert (ran.code, ran.out) == (1, "")
    assert '"NotFound"' in ran.err
    assert not (tmp_path / "missing").exists()


def test_flags_are_shown_and_lowered(run: Run, flagged: Path) -> None:
    """Shown as often as one asks; gone after --lower."""
    for _ in range(2):
        (line,) = run("flags", flagged, "--json").json
        assert (line["journal"], line["count"]) == ("late", 1)
    assert "late" in run("flags", flagged).out
    (line,) = run("stat", flagged, "--json").json
    assert line["flags"] == 1
    assert run("flags", flagged, "--lower").code == 0
    assert run("flags", flagged) == (0, "", "")


# --- check ------------------------------------------------------------------------------------------------------------


def test_a_sound_store_is_clean(run: Run, path: Path) -> None:
    """Exit code 0, also with --deep."""
    assert run("check", path) == (0, f"{path}: clean\n", "")
    assert run("check", path, "--deep", "--json").json == [{"store": str(path), "differences": []}]


def test_damage_is_named(run: Run, path: Path) -> None:
    """Exit code 1 and the file that is damaged; the store is not touched by looking."""
    rows = path / "pages" / "000001" / "rows.mdb"
    rotten = bytearray(rows.read_bytes())
    rotten[len(rotten) // 2] ^= 1
    rows.write_bytes(rotten)
    for _ in range(2):
        ran = run("check", path)
        assert ran.code == 1
        assert "rows.mdb" in ran.out
    (line,) = run("check", path, "--json").json
    assert len(line["differences"]) == 1
    assert rows.read_bytes() == rotten


def test_check_of_what_is_no_store(run: Run, tmp_path: Path) -> None:
    """Exit code 1, nothing made."""
    assert run("check", tmp_path / "missing").code == 1
    assert not (tmp_path / "missing").exists()


# --- drop: a journal goes, when it is really meant --------------------------------------------------------------------


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    """A store with a journal that has its own files, and two merged ones."""
    with journal.open(tmp_path / "s") as store:
        store.journal("alone").put("k")
        for name in ("a", "b"):
            store.journal(name, merged=True).put("k")
    return str(tmp_path / "s")


@pytest.mark.parametrize("name", ["alone", "a"])
def test_drop_drops_one(mixed: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Only that one; what it had is said."""
    assert main(["drop", mixed, name, "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"dropped": name, "entries": 1}
    with journal.open(mixed) as store:
        assert store.journals() == sorted({"alone", "a", "b"} - {name})
        assert store.check() == []


def test_drop_asks_before(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Not at a terminal, and without --yes: nothing changes."""
    assert main(["drop", mixed, "a"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert main(["drop", mixed, "other", "--yes"]) == 1
    with journal.open(mixed) as store:
        assert store.journals() == ["a", "alone", "b"]


def test_statistics_tell_of_merged_journals(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Together, and how many entries each has."""
    assert main(["stat", mixed]) == 0
    shown = capsys.readouterr().out
    assert "merged journals, together" in shown and "a                  1 entries" in shown


# --- backup, restore --------------------------------------------------------------------------------------------------


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


def test_a_backup_that_is_refused(run: Run, path: Path, tmp_path: Path) -> None:
    """Clear words, exit codes, and nothing made."""
    assert run("restore", tmp_path / "none", tmp_path / "r").code == 1
    assert run("backup", tmp_path / "none", tmp_path / "b").code == 1
    assert run("backup", path, path / "inside").code == 2
    assert run("backup", path, tmp_path / "b").code == 0
    assert run("restore", tmp_path / "b", path).code == 2
    assert not (tmp_path / "r").exists()


def test_backup_through_the_daemon(run: Run, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
