"""journal claim."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import journal
from tests.cli.conftest import Run


def test_claim_prints_the_token(run: Run, path: Path, check: Callable[[], None]) -> None:
    """The lease outlives the command: another one can finish it."""
    ran = run("claim", path, "pages", "--consumer", "me", "--lease", "1m")
    assert ran.code == 0
    token = int(ran.out.split()[0])
    with journal.open(path) as opened:
        (lease,) = opened.journal("pages").leases(consumer="me")
        assert (lease.token, lease.key) == (token, "a")
    check()


def test_claim_as_json(run: Run, path: Path) -> None:
    """The token as text: some readers of JSON cut large integers."""
    leases = run("claim", path, "pages", "-n", 5, "--json").json
    assert [(x["key"], x["data"]) for x in leases] == [("a", {"uri": "/a"}), ({"hex": "ff"}, {"hex": "0001"})]
    assert all(isinstance(x["token"], str) for x in leases)
    assert leases[0]["deadline"] > leases[0]["process_date"]


def test_nothing_due_is_exit_code_3(run: Run, path: Path) -> None:
    """Not an error, but a script can tell."""
    assert run("claim", path, "pages", "-n", 5).code == 0
    assert run("claim", path, "pages") == (3, "nothing is due\n", "")
    assert run("claim", path, "pages", "--json") == (3, "", "")


def test_claim_of_what_is_missing(run: Run, path: Path, tmp_path: Path) -> None:
    """Exit code 1; wrong arguments 2; nothing made, nothing claimed."""
    assert run("claim", path, "other").code == 1
    assert run("claim", tmp_path / "missing", "pages").code == 1
    for words in (("-n", "0"), ("-n", "x"), ("--lease", "0s"), ("--lease", "long")):
        assert run("claim", path, "pages", *words).code == 2
    assert not (tmp_path / "missing").exists()
    assert len(run("ls", path, "pages", "--status", "waiting", "--json").json) == 3
