"""journal pause, resume."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Run


def test_a_paused_journal_hands_nothing_out(run: Run, path: Path, check: Callable[[], None]) -> None:
    """Until it is resumed; the flag says why, and is not lowered with others."""
    assert run("pause", path, "pages", "the mail server is down", "--json").json == [
        {"journal": "pages", "paused": True}
    ]
    assert run("claim", path, "pages").out == "nothing is due\n"
    assert run("stat", path, "--json").json[0]["journals"]["pages"]["paused"]["reason"] == "the mail server is down"
    assert "paused (1x): the mail server is down" in run("flags", path, "--lower").out
    assert "paused" in run("flags", path).out
    assert run("resume", path, "pages").out == "resumed pages\n"
    assert run("resume", path, "pages", "--json").json == [{"journal": "pages", "resumed": False}]
    assert run("flags", path).out == ""
    assert len(run("claim", path, "pages", "--json").json) == 1
    check()
