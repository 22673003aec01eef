"""Every command on a store that nobody owns, and on one that a daemon serves: the same words, the same answers."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.cli import COMMANDS
from journal.daemon.tokenfile import add_token, read_tokens
from tests.cli.conftest import Ran, Run
from tests.daemon.serving import serving

# Each is a story: commands one after the other. {1} is the token of the first claim. What is in the store before: see `make`.
STORIES: dict[str, list[str]] = {
    "put": ["put S pages new 5 --priority 3", "put S pages new 6", "put S fresh first", "ls S", "peek S pages new"],
    "put, refused": ["put S pages a --create", "put S pages x --priority 300", "put S pages x --owner group --delay 2h"],
    "peek": ["peek S pages", "peek S pages a", "peek S pages ff --hex", "peek S pages nothing", "peek S none a"],
    "ls": ["ls S", "ls S pages", "ls S pages --status waiting --limit 1", "ls S pages --until 5", "ls S none"],
    "ls, buried": ["ls S pages --buried", "ls S mail --buried"],
    "ls, refused": ["ls S pages --limit -1"],
    "claim": ["claim S pages", "claim S pages -n 5 --consumer me --lease 30s", "claim S pages", "claim S none"],
    "claim, buckets": ["claim S pages --buckets 0-3", "claim S pages --buckets 70000", "claim S pages -n 0"],
    "done": ["claim S pages", "done S pages {1}", "done S pages {1} 5", "peek S pages a"],
    "release": ["claim S pages", "release S pages {1} --delay 1h", "release S pages {1}", "peek S pages a"],
    "bury": ["claim S pages", "bury S pages {1} broken", "ls S pages --buried", "bury S pages {1}"],
    "retry": ["retry S pages lost", "peek S pages lost", "retry S pages lost"],
    "retry, discarded": ["retry S pages lost --discard", "ls S pages --buried", "retry S pages lost --discard"],
    "stat": ["stat S"],
    "flags": ["flags S", "flags S --lower", "flags S"],
    "check": ["check S", "check S --deep"],
    "generations": ["generations S pages", "generations S none"],
    "rotate": ["rotate S pages", "put S pages new", "generations S pages"],
    "compact": ["compact S log", "compact S pages"],
    "forecast": ["forecast S pages --rate 10 --horizon 2h", "forecast S pages --step 0", "forecast S pages --consumers 2"],
    "drop": ["drop S mail --yes", "ls S", "drop S mail --yes", "drop S pages"],
    "feed": ["feed list S pages", "feed show S pages audit", "feed next S pages audit", "feed next S pages audit"],
    "feed, positions": [
        "feed mark S pages audit BEGIN", "feed show S pages audit", "feed skip S pages audit 0", "feed skip S pages audit 0",
        "feed mark S pages audit 001-0001-000000000000000999", "feed mark S pages nobody BEGIN", "feed show S pages nobody",
    ],
    "feed, removed": ["feed remove S pages audit", "feed list S pages", "feed remove S pages audit"],
    "log": ["log newest S pages", "log oldest S log", "log show S pages"],
}  # fmt: skip
ELSEWHERE = {"serve", "tokens"}
"""Commands that are not about what is in a store."""
VOLATILE = {
    "token", "consumer", "pid", "path", "opening", "now", "clock_steps", "drift", "bytes", "held_bytes", "journals", "merged",
}  # fmt: skip
"""What differs from one opening to the next, or with who asks; the counters of `stat` are told by other tests."""


def make(path: Path) -> None:
    """A store with something of everything."""
    with journal.open(path) as store:
        pages = store.journal("pages")
        with pages.feed(consumer="audit", live=False) as feed:
            assert list(feed) == []
        pages.put("lost", priority=0)
        lease = pages.claim()
        assert lease is not None
        lease.bury("unreadable")
        pages.put("a", {"uri": "/a"}, priority=10)
        pages.put("b", delay="1h", owner="group")
        pages.put(b"\xff", b"\0\1", priority=20)
        pages.raise_flag("look", "at this")
        store.journal("mail").put("m")
        log = store.journal("log", compact=True)
        for number in range(3):
            log.put("k", number)
        store.journal("small", merged=True).put("s")


@contextmanager
def owned(path: Path, how: str) -> Iterator[str]:
    """A store as a command finds it; the word for it on the command line."""
    if how == "alone":
        yield str(path)
        return
    with journal.open(path) as store:
        if how == "tcp":
            add_token(path / "_tokens", "keeper", ["admin"], ["*"], ["*"])
            server = store.serve(unix=False, tcp=[("127.0.0.1", 0)], tokens=read_tokens(path / "_tokens"))
            yield server.addresses[0]
        else:
            store.serve(unix=path.parent / "listening" if how == "elsewhere" else True)
            yield str(path)
        assert store.check() == []


def told(run: Run, where: str, story: list[str], *options: str) -> list[Any]:
    """What the commands of a story answer."""
    claimed: list[str] = []
    answers = []
    for line in story:
        words = [where if word == "S" else word for word in line.format(0, *claimed).split()]
        ran = run(*words, *options)
        answers.append((line, ran.code, plain(ran, where)))
        if words[0] == "claim" and not claimed:
            claimed = tokens_in(ran)
    return answers


def tokens_in(ran: Ran) -> list[str]:
    return [json.loads(line)["token"] if line[0] == "{" else line.split()[0] for line in ran.out.splitlines()]


def plain(ran: Ran, where: str) -> Any:
    """An answer without what the time, the place or the opening puts into it."""
    lines = (ran.out + ran.err).splitlines()
    return [steady(json.loads(line), where) if line.startswith("{") else words(line, where) for line in lines]


def steady(value: Any, where: str) -> Any:
    if isinstance(value, dict):
        return {key: ... if key in VOLATILE else steady(inner, where) for key, inner in value.items()}
    if isinstance(value, list):
        return [steady(inner, where) for inner in value]
    if isinstance(value, str):
        return words(value, where)
    return "date" if isinstance(value, int) and value > 10**12 else value


def words(line: str, where: str) -> str:
    line = re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "DATE", line)
    line = re.sub(r"\b\d{12,}\b(?!-)", "NUMBER", line)
    line = re.sub(r"\b\d+ bytes|holds \d+|opened \d+ times", "SIZE", line)
    line = re.sub(r"  (\w*(?:bytes|syncs|checkpoints?|offset)\w*) +\d+", r"\1 SIZE", line)
    return line.replace(where, "S").replace("in the daemon's store", "in S")


@pytest.mark.parametrize("how", ["served", "elsewhere", "tcp"])
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("story", STORIES)
def test_a_command_works_both_ways(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: str, options: tuple[str, ...], how: str
) -> None:
    """Output and exit code are the same, whoever owns the store."""
    if how == "tcp" and story == "log":
        pytest.skip("a log is read from its files")
    answers = []
    for place in ("alone", how):
        make(tmp_path / place)
        with owned(tmp_path / place, place) as where:
            if place == "tcp":
                token = read_tokens(tmp_path / place / "_tokens")["keeper"].secret.hex()
                monkeypatch.setenv("JOURNAL_TOKEN", f"keeper:{token}")
            answers.append(told(run, where, STORIES[story], *options))
            monkeypatch.delenv("JOURNAL_TOKEN", raising=False)
    assert answers[1] == answers[0]


def test_every_command_is_in_a_story() -> None:
    """With every verb of those that have some."""
    told = {tuple(line.split()[:2]) for story in STORIES.values() for line in story}
    for module in COMMANDS:
        name = module.__name__.rsplit(".", 1)[1]
        if name in ELSEWHERE:
            continue
        for verb in getattr(module, "VERBS", {}):
            assert (name, verb) in told
        assert any(command == name for command, _ in told), name
