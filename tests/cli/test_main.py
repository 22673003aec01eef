"""The command line as a whole: help, versions, a store that another process owns, a reader that goes away."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import journal
from journal.cli import COMMANDS
from tests.cli.conftest import Run

OWN = """
import sys, journal
with journal.open(sys.argv[1]) as store:
    store.journal("pages")
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def owner(path: Path) -> Iterator[int]:
    """The pid of another process that owns the store."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWN, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == "open\n"
    yield process.pid
    process.stdin.close()
    assert process.wait(100) == 0
    process.stdout.close()


def test_help_names_every_command(run: Run) -> None:
    """And each has help of its own, with --json."""
    ran = run("--help")
    assert ran.code == 0
    for command in COMMANDS:
        assert command.name in ran.out
        helped = run(command.name, "--help")
        assert helped.code == 0
        assert "--json" in helped.out


def test_version(run: Run) -> None:
    """The package's."""
    assert run("--version") == (0, f"journal {journal.__version__}\n", "")


@pytest.mark.parametrize("words", [(), ("unknown",), ("put",)])
def test_wrong_words(run: Run, words: tuple[str, ...]) -> None:
    """Exit code 2 and the usage on standard error."""
    ran = run(*words)
    assert (ran.code, ran.out) == (2, "")
    assert "usage" in ran.err


def test_commands_that_only_look_work_beside_the_owner(run: Run, path: Path, owner: int) -> None:
    """peek, ls, stat, flags and check show what the last checkpoint committed."""
    assert run("peek", path, "pages", "a").code == 0
    assert len(run("ls", path, "pages", "--json").json) == 3
    assert run("ls", path).out == "pages\n"
    assert run("stat", path).code == 0
    assert run("flags", path).code == 0
    assert run("check", path).code == 0


def test_commands_that_change_are_refused_beside_the_owner(run: Run, path: Path, owner: int) -> None:
    """Exit code 1 and the owner's pid."""
    for words in (
        ("put", path, "pages", "x"), ("claim", path, "pages"), ("done", path, "pages", 5), ("release", path, "pages", 5),
        ("bury", path, "pages", 5), ("retry", path, "pages", "a"), ("flags", path, "--lower"),
    ):  # fmt: skip
        ran = run(*words)
        assert (ran.code, ran.out) == (1, ""), words
        assert str(owner) in ran.err


def test_a_reader_that_goes_away_is_no_error(path: Path) -> None:
    """`journal ls … | head -1`: no traceback."""
    with journal.open(path) as opened:
        opened.journal("pages").put_many([journal.Put(f"{i:05}", "x" * 100) for i in range(3000)])
    process = subprocess.Popen(
        [sys.executable, "-m", "journal", "ls", path, "pages", "--limit", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(100) == 0
    assert b"Traceback" not in err
