"""The notebook of examples/spark runs, in the tests' session and an empty directory."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "spark" / "load_and_lateness.py"


@pytest.mark.slow
def test_the_notebook_draws_its_picture(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The load ahead and the lateness of the last day, from an export."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'journal[plots]'")
    monkeypatch.chdir(tmp_path)
    found = runpy.run_path(str(EXAMPLE))
    assert capsys.readouterr().out.splitlines()[-1] == "report/load_and_lateness.png"
    assert (tmp_path / "report" / "load_and_lateness.png").read_bytes()[:4] == b"\x89PNG"
    assert sum(row["count"] for row in found["ahead"]) <= found["manifest"].rows
    assert max(row.worst for row in found["late"]) >= 3600, "no worker for an hour"
