"""A command as a person runs it: its exit code, what it printed, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import journal
from journal import cli
from journal.cli import COMMANDS, main, parser


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> list[Any]:
        """Its lines, each a JSON object."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]
OURS = {command.name for command in COMMANDS}
known = cache(parser)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `journal` with these words. The parser of our commands is made once for each: it takes longer than most commands."""
    monkeypatch.setattr(cli, "parser", lambda word: known(word) if word in OURS else parser(word))

    def runner(*words: object) -> Ran:
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else 1
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return runner


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with three entries, without an owner: "a" is next, "b" is later, b"\\xff" has bytes."""
    with journal.open(tmp_path / "s") as opened:
        pages = opened.journal("pages")
        pages.put("a", {"uri": "/a"}, priority=10)
        pages.put("b", delay="1h", owner="group")
        pages.put(b"\xff", b"\0\1", priority=20)
    return tmp_path / "s"


@pytest.fixture
def check(path: Path) -> Callable[[], None]:
    """The store is sound after whatever the commands did."""

    def checker() -> None:
        with journal.open(path) as opened:
            assert opened.check() == []

    return checker
