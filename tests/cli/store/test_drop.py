"""`journal drop`: a journal goes, when it is really meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import journal
from journal.cli import main


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A store with a journal that has its own files, and two merged ones."""
    with journal.open(tmp_path / "s") as store:
        store.journal("alone").put("k")
        for name in ("a", "b"):
            store.journal(name, merged=True).put("k")
    return str(tmp_path / "s")


@pytest.mark.parametrize("name", ["alone", "a"])
def test_it_drops_one(path: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Only that one; what it had is said."""
    assert main(["drop", path, name, "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"dropped": name, "entries": 1}
    with journal.open(path) as store:
        assert store.journals() == sorted({"alone", "a", "b"} - {name})
        assert store.check() == []


def test_it_asks_before(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Not at a terminal, and without --yes: nothing changes."""
    assert main(["drop", path, "a"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert main(["drop", path, "other", "--yes"]) == 1
    with journal.open(path) as store:
        assert store.journals() == ["a", "alone", "b"]


def test_statistics_tell_of_merged_journals(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Together, and how many entries each has."""
    assert main(["stat", path]) == 0
    shown = capsys.readouterr().out
    assert "merged journals, together" in shown and "a                  1 entries" in shown
