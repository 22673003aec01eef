"""journal release."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run


def test_release_lets_the_entry_wait(run: Run, path: Path) -> None:
    """Now or later."""
    (lease,) = run("claim", path, "pages", "--json").json
    ran = run("release", path, "pages", lease["token"], "--delay", "1h", "--priority", 7)
    assert (ran.code, ran.out) == (0, f"{lease['token']}  released\n")
    (entry,) = run("peek", path, "pages", "a", "--json").json
    assert (entry["status"], entry["timeouts"], entry["priority"]) == ("W", 0, 7)
    assert entry["process_date"] >= lease["process_date"] + 3_600_000


def test_release_of_a_lost_lease(run: Run, path: Path) -> None:
    """Exit code 1, the kind of the error in JSON on standard error; a wrong delay is 2 and costs no lease."""
    (lease,) = run("claim", path, "pages", "--json").json
    assert run("release", path, "pages", lease["token"], "--delay", "x").code == 2
    assert run("release", path, "pages", lease["token"], "--json").json == [{"token": lease["token"], "released": True}]
    again = run("release", path, "pages", lease["token"], "--json")
    assert (again.code, again.out) == (1, "")
    assert '"LeaseLost"' in again.err
