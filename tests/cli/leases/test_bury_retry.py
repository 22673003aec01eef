"""journal bury, retry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.fixture
def buried(run: Run, path: Path) -> str:
    """Key "a" was buried; its token."""
    (lease,) = run("claim", path, "pages", "--json").json
    ran = run("bury", path, "pages", lease["token"], "bad", "--json")
    assert (ran.code, ran.json) == (0, [{"token": lease["token"], "buried": True}])
    return str(lease["token"])


def test_bury_needs_a_lease(run: Run, path: Path, buried: str) -> None:
    """A second time it is lost."""
    ran = run("bury", path, "pages", buried)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("journal: ")


def test_retry_brings_it_back(run: Run, path: Path, buried: str, check: Callable[[], None]) -> None:
    """Once; then there is no buried one."""
    assert run("retry", path, "pages", "a").code == 0
    assert run("peek", path, "pages", "a").code == 0
    assert run("ls", path, "pages", "--buried").out == ""
    assert run("retry", path, "pages", "a").code == 1
    check()


def test_discard_deletes_it(run: Run, path: Path, buried: str, check: Callable[[], None]) -> None:
    """For good."""
    ran = run("retry", path, "pages", "a", "--discard", "--json")
    assert (ran.code, ran.json) == (0, [{"key": "a", "outcome": "discarded"}])
    assert run("ls", path, "pages", "--buried").out == ""
    assert run("peek", path, "pages", "a").code == 1
    check()


def test_a_selection_is_listed_and_retried(run: Run, path: Path, buried: str, check: Callable[[], None]) -> None:
    """By what keys begin with, or by the reason; a key or a selection, not both."""
    assert [found["key"] for found in run("ls", path, "pages", "--buried", "--prefix", "a", "--json").json] == ["a"]
    assert run("ls", path, "pages", "--buried", "--reason", "other").out == ""
    assert len(run("ls", path, "pages", "--status", "buried", "--json").json) == 1
    assert run("retry", path, "pages", "--prefix", "x").out == ""
    for words in ([], ["a", "--all"], ["--all", "--discard"]):
        assert run("retry", path, "pages", *words).code == 2
    assert run("retry", path, "pages", "--reason", "bad", "--json").json == [{"key": "a", "outcome": "retried"}]
    assert run("retry", path, "pages", "--all").out == ""
    check()


def test_a_selection_tells_what_stays(run: Run, path: Path, buried: str) -> None:
    """A newer entry of the key: exit code 1."""
    run("put", path, "pages", "a", "1")
    ran = run("retry", path, "pages", "--all")
    assert ran.code == 1 and "newer entry" in ran.out
