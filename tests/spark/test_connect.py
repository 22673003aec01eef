"""Spark Connect: what works on a classic session works there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import journal
from tests.spark.setting import environment

pytest.importorskip("grpc", reason="Spark Connect is not installed: pip install 'journal[connect]'")
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'journal[spark]'")


def test_session_export_and_load(tmp_path: Path) -> None:
    """In a process of its own (tests/spark/connected.py)."""
    with journal.open(tmp_path / "work.journal") as store:
        for key in "abc":
            store.journal("pages").put(key, 1)
        store.journal("again")
    run = subprocess.run(
        [sys.executable, "-m", "tests.spark.connected", str(tmp_path)],
        env=environment(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1"),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-5000:]
