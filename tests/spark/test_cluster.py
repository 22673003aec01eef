"""The same jobs on a cluster: drivers and executors in processes of their own, on the loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import journal
from journal.net.tokens import parse_tokens

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'journal[spark]'")
from tests.spark.standalone import Standalone

ROOT = Path(__file__).resolve().parents[2]
ROWS = 20
SECRET = "0123456789abcdef" * 4


def jobs(master: str, store: journal.Store, place: Path) -> dict[str, object]:
    """What the jobs found, run by a driver of their own; the driver has the token, and executors get it from there."""
    store.journal("pages").put_many([journal.Put(f"k{n:02}", n) for n in range(ROWS)])
    copies = store.journal("copies")
    store.checkpoint()
    tokens = parse_tokens(f"spark {SECRET} produce,consume pages,copies *")
    with store.serve(tcp=[("127.0.0.1", 0)], tokens=tokens) as server:
        address = next(each for each in server.addresses if each.startswith("tcp:"))
        run = subprocess.run(
            [sys.executable, "-m", "tests.spark.cluster", master, str(store.path), address, str(place)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "JOURNAL_TOKEN": f"spark:{SECRET}"},
            capture_output=True,
            text=True,
            timeout=1100,
            check=False,
        )
    assert run.returncode == 0, run.stderr
    assert {entry.key for entry in copies.scan()} == {f"{word}k{n:02}" for n in range(ROWS) for word in ("", "again-")}
    found: dict[str, object] = json.loads(run.stdout.splitlines()[-1])
    return found


def check(found: dict[str, object]) -> None:
    """All rows, from the files and through the daemon, there and back, in two executors; and nobody else can reach them."""
    rows = [[f"k{n:02}", str(n)] for n in range(ROWS)]
    assert found == {
        "files": rows,
        "daemon": rows,
        "elsewhere": [],
        "executors": 2,
        "exported": ROWS,
        "read back": ROWS,
        "loaded": ROWS,
        "streamed": ROWS,
    }


@pytest.mark.slow
def test_local_cluster(store: journal.Store, tmp_path: Path) -> None:
    """Two executors, each in a Java of its own."""
    check(jobs("local-cluster[2,1,1024]", store, tmp_path))


@pytest.mark.slow
def test_standalone_cluster(store: journal.Store, tmp_path: Path) -> None:
    """A master and two workers that were there before."""
    with Standalone(tmp_path) as cluster:
        check(jobs(cluster.master, store, tmp_path))
