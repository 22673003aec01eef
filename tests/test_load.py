"""A small load test: everything is worked off, and nothing handed out twice without a lost lease."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import journal
from benchmarks.rows.load import Load, _Topic, run


@pytest.mark.parametrize("buckets", [None, 50], ids=["over-all", "dealt"])
def test_everything_is_worked_off(tmp_path: Path, buckets: int | None) -> None:
    """Two journals with five consumers each, dates from the past into the near future; `run` itself checks the rest."""
    load = Load(entries=1500, buckets=buckets, bytes=200, past_ms=500, future_ms=500, at_once=20, timeout_s=60)
    outcome = run(tmp_path / "s", load)
    assert len(outcome.late_ms) == outcome.handed == 3000 + outcome.lost
    assert min(outcome.late_ms) >= -1  # never too early; the two clocks differ by their rounding


def test_it_notices_what_is_wrong(tmp_path: Path) -> None:
    """An entry that is left, one that never came, and one that came twice; but not one whose lease was lost."""
    with journal.open(tmp_path / "s") as store:
        topic = _Topic(store, 0, Load(entries=3, buckets=None), threading.Event())
        topic.handed[:] = bytes([1, 1, 1])
        topic.check()
        topic.handed[:] = bytes([1, 2, 1])
        with pytest.raises(AssertionError, match="1 twice without a lost lease"):
            topic.check()
        topic.lost.append(1)
        topic.check()
        topic.handed[:] = bytes([1, 2, 0])
        topic.pages.put("2")
        with pytest.raises(AssertionError, match="1 left, 1 never handed out"):
            topic.check()
        topic.close()
