"""The command line where lmdb is not installed: daemons are asked, and what needs the engine says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import journal

PROGRAM = """
import sys

sys.modules["lmdb"] = None  # importing it fails
from journal.cli import main

sys.exit(main(sys.argv[1:]))
"""


def run(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a command."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("is_by_path", [False, True], ids=["address", "path"])
def test_a_daemon_is_asked(tmp_path: Path, is_by_path: bool) -> None:
    """By its address, or by the path of its store."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        with store.serve(unix=False, tcp=[("127.0.0.1", 0)], trust_loopback=True) as server:
            where = tmp_path / "s" if is_by_path else server.addresses[0]
            assert run("put", where, "pages", "/home", "7").returncode == 0
            claimed = run("claim", where, "pages", "--consumer", "me", "--json")
            assert claimed.returncode == 0 and json.loads(claimed.stdout)["key"] == "/home"
            missing = run("peek", where, "other", "a")
            assert missing.returncode == 1 and "the daemon's store" in missing.stderr
        assert [lease.consumer for lease in pages.leases()] == ["me"]


def test_what_needs_the_engine_says_so(tmp_path: Path) -> None:
    """On one line; nothing is made."""
    for words in (("put", tmp_path / "s", "pages", "a"), ("serve", tmp_path / "s")):
        ran = run(*words)
        assert ran.returncode == 1 and "lmdb" in ran.stderr and "pip install lmdb" in ran.stderr
        assert "Traceback" not in ran.stderr and ran.stdout == "" and not (tmp_path / "s").exists()
    said = json.loads(run("serve", tmp_path / "s", "--json").stderr)
    assert "pip install lmdb" in said["message"]
    assert run("--help").returncode == 0
