"""The bar of an export: rows and rate, never back, and gone at the end."""

from __future__ import annotations

import io
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from spark_export.exports import progress
from spark_export.exports.progress import Progress, line


def test_a_line_says_rows_and_rate() -> None:
    """Also before the first row, and of nothing."""
    assert (
        line("export pages", 50, 200, 2.0) == "export pages [######..................]  25% 50 of 200 rows, 25 rows/s"
    )
    assert line("x", 0, 1000, 0.0).endswith("  0% 0 of 1,000 rows, 0 rows/s")
    assert line("x", 0, 0, 1.0).endswith("100% 0 of 0 rows, 0 rows/s")


def session(done: int, total: int) -> Any:
    """What a bar asks of a session."""
    tracker = SimpleNamespace(
        getJobIdsForGroup=lambda group: [1],
        getJobInfo=lambda job: SimpleNamespace(stageIds=[1, 2]),
        getStageInfo=lambda stage: SimpleNamespace(numCompletedTasks=done, numTasks=total) if stage == 1 else None,
    )
    return SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))


def test_the_bar_does_not_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count may be read while it is written; elsewhere the tasks that are done say how far it is."""
    monkeypatch.setattr(progress, "STEP_S", 0.001)
    counts = iter([300, 20, 0])
    is_told = threading.Event()

    def counted() -> int:
        count = next(counts, None)
        if count is None:
            is_told.set()
        return count or 0

    out = io.StringIO()
    with Progress(session(1, 4), "group", 1000, "export", counted=counted, is_shown=True, out=out):
        assert is_told.wait(100)
    shown = [int(part.split("% ")[1].split(" of")[0]) for part in out.getvalue().split("\r") if "rows" in part]
    assert shown[0] == 300 and shown == sorted(shown)
    assert out.getvalue().endswith("\r\x1b[K")


def test_nothing_is_shown_where_nobody_looks() -> None:
    """Standard error that is no terminal stays clean."""
    out = io.StringIO()
    with Progress(session(1, 1), "group", 1, "export", counted=lambda: 1, is_shown=None, out=out):
        pass
    assert out.getvalue() == ""
