"""journal done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Run


def test_done_finishes_and_may_be_repeated(run: Run, path: Path, check: Callable[[], None]) -> None:
    """Many tokens at once; again is harmless."""
    tokens = [x["token"] for x in run("claim", path, "pages", "-n", 5, "--json").json]
    for _ in range(2):
        ran = run("done", path, "pages", *tokens)
        assert ran.code == 0
        assert ran.out.split()[::2] == tokens
    assert [x["key"] for x in run("ls", path, "pages", "--json").json] == ["b"]
    check()


def test_done_with_a_lost_lease_is_exit_code_1(run: Run, path: Path) -> None:
    """The others of the command are finished all the same."""
    (lease,) = run("claim", path, "pages", "--json").json
    ran = run("done", path, "pages", "5", lease["token"], "--json")
    assert ran.code == 1
    assert [(x["token"], x["done"]) for x in ran.json] == [("5", False), (lease["token"], True)]
    assert run("peek", path, "pages", "a").code == 1


def test_wrong_tokens(run: Run, path: Path) -> None:
    """Exit code 2 for what is no number; 1 for a journal that is not there."""
    assert run("done", path, "pages", "x").code == 2
    assert run("done", path, "pages").code == 2
    assert run("done", path, "other", "5").code == 1
