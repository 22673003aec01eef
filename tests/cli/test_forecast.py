"""journal forecast."""

from __future__ import annotations

from pathlib import Path

import pytest

import journal
from journal import Put
from tests.cli.conftest import Run


@pytest.fixture
def ahead(tmp_path: Path) -> Path:
    """One entry a minute, and 300 of them after ten minutes; two that are due."""
    with journal.open(tmp_path / "ahead.journal") as store:
        mails = store.journal("mails")
        mails.put_many([Put(f"m{n}", delay=n * 60_000 - 30_000) for n in range(1, 60)])
        mails.put_many([Put(f"s{n}", delay=9 * 60_000 + 31_000, priority=20) for n in range(300)])
        mails.put_many([Put("a"), Put("b")])
    return tmp_path / "ahead.journal"


def test_a_table_with_its_spikes(run: Run, ahead: Path) -> None:
    """For people: steps, and where far more than usual falls due."""
    ran = run("forecast", ahead, "mails")
    assert ran.code == 0
    assert "361 entries, in steps of 1m" in ran.out
    assert "spike from" in ran.out and "in the highest step, where 1 are usual" in ran.out
    assert "consumers" not in ran.out


def test_as_json(run: Run, ahead: Path) -> None:
    """All numbers, and no hints unless asked for."""
    (found,) = run("forecast", ahead, "mails", "--step", "10m", "--horizon", "30m", "--json").json
    assert (found["total"], found["step_ms"], len(found["steps"])) == (361, 600_000, 3)
    assert found["overdue"]["total"] == 2 and found["later"]["total"] > 0
    assert found["steps"][0]["by_priority"]["20"] == 300
    assert found["scaling"] is None


def test_how_many_consumers(run: Run, ahead: Path) -> None:
    """With a rate; one consumer unless said otherwise."""
    ran = run("forecast", ahead, "mails", "--rate", "1", "--late", "2m")
    assert ran.code == 0
    assert "consumers: 1, of 1 entries/s each; needed at most:" in ran.out
    (found,) = run("forecast", ahead, "mails", "--rate", "0.5", "--consumers", "3", "--json").json
    hints = found["scaling"]
    assert (hints["consumers"], hints["rate"], hints["most"]) == (3, 0.5, max(n["consumers"] for n in hints["needs"]))
    assert hints["most"] > 9 and hints["plan"]


def test_from_a_date(run: Run, ahead: Path) -> None:
    """What is before it is overdue."""
    (found,) = run("forecast", ahead, "mails", "--since", "2100-01-01T00:00:00Z", "--json").json
    assert (found["overdue"]["total"], found["now"]) == (361, 4_102_444_800_000)


@pytest.mark.parametrize(
    "words", [("--step", "0s"), ("--consumers", "2"), ("--rate", "0"), ("--rate", "x"), ("--step", "1ms")], ids=str
)
def test_wrong_words(run: Run, ahead: Path, words: tuple[str, str]) -> None:
    """Exit code 2."""
    assert run("forecast", ahead, "mails", *words).code == 2


def test_of_what_is_missing(run: Run, ahead: Path, tmp_path: Path) -> None:
    """Exit code 1."""
    assert run("forecast", ahead, "letters").code == 1
    assert run("forecast", tmp_path / "missing", "mails").code == 1
