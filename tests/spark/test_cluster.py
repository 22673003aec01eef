"""A local cluster, in a session that the user made. All jobs, and a standalone cluster too: `python -m tests.spark.clusters`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import journal
from journal.net.wire.tokens import parse_tokens

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'journal[spark]'")
from tests.spark.own import DATE
from tests.spark.setting import ROOT, environment

SECRET = "0123456789abcdef" * 4


@pytest.mark.slow
def test_local_cluster_in_a_session_of_the_users_own(tmp_path: Path) -> None:
    """
    Two executors, each in a Java of its own, read the files and ask the daemon, and load through it. The session keeps its settings
    (session S4), and what is read and loaded in its zone is the same instant.
    """
    with journal.open(tmp_path / "work.journal") as store:
        store.journal("pages").put("a", {"n": 1}, process_date=DATE)
        others = [store.journal(name) for name in ("again", "more")]
        store.checkpoint()
        tokens = parse_tokens(f"spark {SECRET} produce,consume * *")
        with store.serve(tcp=[("127.0.0.1", 0)], tokens=tokens) as server:
            address = next(each for each in server.addresses if each.startswith("tcp:"))
            run = subprocess.run(
                [sys.executable, "-m", "tests.spark.own", "local-cluster[2,1,1024]", str(tmp_path), address],
                cwd=ROOT,
                env=environment(JOURNAL_TOKEN=f"spark:{SECRET}"),
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
        assert run.returncode == 0, run.stderr[-3000:]
        for other in others:
            (entry,) = other.scan()
            assert (entry.key, entry.data, entry.process_date) == ("a", {"n": 1}, DATE)
