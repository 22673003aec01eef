"""journal stat, flags."""

from __future__ import annotations

from pathlib import Path

import pytest

import journal
from journal.testing import ManualClock
from tests.cli.conftest import Run


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
