"""Every command on a store without an owner, and on one that a daemon serves: the same words, the same answers."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.cli import COMMANDS
from journal.engine.files.posix import announced
from journal.net.server.runtime.token_file import add_token, read_tokens
from tests.cli.conftest import Ran, Run
from tests.net.server.serving import serving

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
    "retry, many": ["ls S pages --buried --prefix lo --reason x", "retry S pages --prefix lo", "ls S pages --buried"],
    "versions": ["put S pages a 5 --version 9", "put S pages a 6 --version 0", "claim S pages", "release S pages {1} --priority 9"],
    "pause": ["pause S pages deploy", "claim S pages", "flags S", "put S pages new", "resume S pages", "claim S pages", "resume S pages"],
    "pause, refused": ["pause S none", "resume S none"],
    "stat": ["stat S"],
    "flags": ["flags S", "flags S --lower", "flags S"],
    "check": ["check S", "check S --deep"],
    "generations": ["generations S pages", "generations S none"],
    "rotate": ["rotate S pages", "put S pages new", "generations S pages"],
    "compact": ["compact S log", "compact S pages"],
    "forecast": ["forecast S pages --rate 10 --since 3999999000000", "forecast S pages --step 0", "forecast S pages --consumers 2"],
    "drop": ["drop S mail --yes", "ls S", "drop S mail --yes", "drop S pages"],
    "feed": ["feed list S pages", "feed show S pages audit", "feed next S pages audit", "feed next S pages audit"],
    "feed, positions": [
        "feed mark S pages audit BEGIN", "feed show S pages audit", "feed skip S pages audit 0", "feed skip S pages audit 0",
        "feed mark S pages audit 001-0001-000000000000000999", "feed mark S pages nobody BEGIN", "feed show S pages nobody",
    ],
    "feed, removed": ["feed remove S pages audit", "feed list S pages", "feed remove S pages audit"],
    "feed, of all merged journals": [
        "feed list S _merged", "feed list S small", "feed show S _merged all", "feed next S _merged all", "feed mark S _merged all BEGIN",
        "feed skip S _merged all 0", "feed remove S small all", "feed remove S _merged all", "feed list S _merged",
        "feed show S _merged all",
    ],
    "logs of all merged journals": ["generations S _merged", "rotate S _merged", "compact S _merged", "peek S _merged k"],
    "log": ["log newest S pages", "log oldest S log", "log show S pages"],
}  # fmt: skip
ELSEWHERE = {"serve", "tokens", "backup", "restore"}
"""Commands that are not about what is in a store, or make another one: test_store has these, through a daemon too."""
VOLATILE = {
    "token", "consumer", "pid", "path", "opening", "now", "clock_steps", "drift", "bytes", "held_bytes", "journals", "merged",
}  # fmt: skip
"""What differs from one opening to the next, or with the caller; the counters of `stat` are told by other tests."""


def make(path: Path) -> None:
    """A store with something of everything."""
    with journal.open(path, durability="none") as store:
        pages = store.journal("pages")
        with pages.feed(consumer="audit", live=False) as feed:
            assert list(feed) == []
        pages.put("lost", priority=0)
        lease = pages.claim()
        assert lease is not None
        lease.bury("unreadable")
        pages.put("a", {"uri": "/a"}, priority=10)
        pages.put("b", process_date=4_000_000_000_000, owner="group")
        pages.put(b"\xff", b"\0\1", priority=20)
        pages.raise_flag("look", "at this")
        store.journal("mail").put("m")
        log = store.journal("log", compact=True)
        for number in range(3):
            log.put("k", number)
        store.merged().feed(consumer="all").close()
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


def told(run: Run, path: Path, where: str, story: list[str], *options: str) -> list[Any]:
    """What the commands of a story answer."""
    claimed: list[str] = []
    answers = []
    for line in story:
        words = [where if word == "S" else word for word in line.format(0, *claimed).split()]
        ran = run(*words, *options)
        answers.append((line, ran.code, plain(ran, path, where)))
        if words[0] == "claim" and not claimed:
            claimed = tokens_in(ran)
    return answers


def tokens_in(ran: Ran) -> list[str]:
    return [json.loads(line)["token"] if line[0] == "{" else line.split()[0] for line in ran.out.splitlines()]


def plain(ran: Ran, *places: object) -> Any:
    """An answer without what the time, the place or the opening puts into it."""
    lines = (ran.out + ran.err).splitlines()
    return [steady(json.loads(line), *places) if line.startswith("{") else words(line, *places) for line in lines]


def steady(value: Any, *places: object) -> Any:
    if isinstance(value, dict):
        return {key: ... if key in VOLATILE else steady(inner, *places) for key, inner in value.items()}
    if isinstance(value, list):
        return [steady(inner, *places) for inner in value]
    if isinstance(value, str):
        return words(value, *places)
    return "date" if isinstance(value, int) and value > 10**12 else value


def words(line: str, *places: object) -> str:
    line = re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "DATE", line)
    line = re.sub(r"\b\d{12,}\b(?!-)", "NUMBER", line)
    line = re.sub(r"\b\d+ bytes|holds \d+|opened \d+ times", "SIZE", line)
    line = re.sub(r"  (\w*(?:bytes|syncs|checkpoints?|offset)\w*) +\d+", r"\1 SIZE", line)
    line = re.sub(r"^  (oldest_due_ms|verbs|lateness|\w+_time) .*", r"\1 SINCE OPENED", line)
    for place in places:
        line = line.replace(str(place), "S")
    return line.replace("in the daemon's store", "in S")


@pytest.mark.parametrize(
    ("story", "how", "form"),
    [
        *((story, "served", form) for story in STORIES for form in ("text", "json")),
        *((story, "tcp", "json") for story in ("put", "claim", "done", "stat", "feed")),
        *(
            pytest.param(story, "tcp", "json", marks=pytest.mark.slow)
            for story in sorted(
                STORIES.keys() - {"put", "claim", "done", "stat", "feed", "log"}
            )  # a log is read from its files
        ),
        *((story, "elsewhere", "text") for story in ("put", "check", "stat")),
    ],
)
def test_a_command_works_both_ways(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: str, how: str, form: str
) -> None:
    """Output and exit code are the same, with any owner of the store."""
    answers = []
    for place in ("alone", how):
        make(tmp_path / place)
        with owned(tmp_path / place, place) as where:
            if place == "tcp":
                token = read_tokens(tmp_path / place / "_tokens")["keeper"].secret.hex()
                monkeypatch.setenv("JOURNAL_TOKEN", f"keeper:{token}")
            answers.append(told(run, tmp_path / place, where, STORIES[story], *(["--json"] if form == "json" else [])))
            monkeypatch.delenv("JOURNAL_TOKEN", raising=False)
    assert answers[1] == answers[0]


def test_every_command_is_in_a_story() -> None:
    """With every verb of those that have some."""
    told = {tuple(line.split()[:2]) for story in STORIES.values() for line in story}
    for command in COMMANDS:
        if command.name in ELSEWHERE:
            continue
        for verb in command.verbs:
            assert (command.name, verb.name) in told
        assert any(word == command.name for word, _ in told), command.name


# --- owners that do not answer ----------------------------------------------------------------------------

CHANGES = ["put S pages x", "claim S pages", "done S pages 5", "rotate S pages", "flags S --lower"]
LOOKS = ["peek S pages a", "ls S", "stat S", "flags S", "check S", "generations S pages", "feed list S pages"]


@pytest.mark.parametrize("left", ["nothing", "socket"])
def test_an_owner_that_is_no_daemon(run: Run, tmp_path: Path, left: str) -> None:
    """What changes is refused, with the owner's pid and what to do; a look at the files is still taken."""
    path = tmp_path / "s"
    make(path)
    if left == "socket":
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path / "SOCKET"))
    with in_another_process(path) as pid:
        for line in CHANGES:
            ran = run(*(path if word == "S" else word for word in line.split()))
            assert (ran.code, ran.out) == (1, ""), line
            assert f"process {pid}, which listens nowhere" in ran.err and "journal serve" in ran.err
        for line in LOOKS:
            ran = run(*(path if word == "S" else word for word in line.split()))
            assert ran.code == 0, (line, ran.err)


OWN = """
import sys, journal
with journal.open(sys.argv[1]) as store:
    store.journal("pages")
    print("open", flush=True)
    sys.stdin.read()
"""


@contextmanager
def in_another_process(path: Path) -> Iterator[int]:
    """The pid of a process that owns a store and does not serve it."""
    owner = subprocess.Popen([sys.executable, "-c", OWN, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert owner.stdin is not None and owner.stdout is not None
    assert owner.stdout.readline() == b"open\n"
    yield owner.pid
    owner.stdin.close()
    assert owner.wait(100) == 0
    owner.stdout.close()


def test_a_daemon_that_has_stopped_listening(run: Run, tmp_path: Path) -> None:
    """Its store is open in another process still: it says so, and no command waits."""
    path = tmp_path / "s"
    make(path)
    with journal.open(path) as store:
        server = store.serve()
        assert run("put", path, "pages", "x").code == 0
        server.stop()
        server.join()
        assert announced(path) == []
        ran = run("put", path, "pages", "y")
        assert ran.code == 1 and f"process {os.getpid()}, which listens nowhere" in ran.err
        assert store.journal("pages").get("y") is None


def test_what_a_killed_daemon_announced_does_not_count(run: Run, tmp_path: Path) -> None:
    """The lock went with it: commands open the store themselves."""
    path = tmp_path / "s"
    make(path)
    with serving(path) as daemon:
        assert announced(path) == daemon.addresses
        assert run("put", path, "pages", "x").code == 0
        daemon.kill()
    assert announced(path) == daemon.addresses
    assert run("put", path, "pages", "y").code == 0
    assert announced(path) == []
    assert run("peek", path, "pages", "x").code == 0


def test_a_daemon_of_its_own(run: Run, tmp_path: Path) -> None:
    """`journal serve` and the others, each a process, as they are used."""
    path = tmp_path / "s"
    make(path)
    with serving(path, "--unix", tmp_path / "here"):
        ran = subprocess.run(
            [sys.executable, "-m", "journal", "put", path, "pages", "x", "5"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, "") and ran.stdout.startswith("inserted")
        assert run("peek", f"unix:{tmp_path / 'here'}", "pages", "x", "--json").json[0]["data"] == 5


@pytest.mark.parametrize(
    ("word", "code", "said"),
    [
        ("unix:/nowhere/SOCKET", 1, "no daemon at unix:/nowhere/SOCKET"),
        ("tcp://127.0.0.1:1", 1, "no daemon at tcp://127.0.0.1:1"),
        ("tcp://127.0.0.1", 2, "HOST:PORT"),
        ("tls://nowhere", 2, "HOST:PORT"),
    ],
)
def test_an_address_where_nobody_is(run: Run, word: str, code: int, said: str) -> None:
    """The error names it, at once."""
    ran = run("put", word, "pages", "x")
    assert (ran.code, ran.out) == (code, "") and said in ran.err


def test_a_token_that_is_wrong(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or none at all: refused, and nothing was changed."""
    path = tmp_path / "s"
    make(path)
    with owned(path, "tcp") as where:
        for token in ("keeper:" + "00" * 32, None, "nobody"):
            monkeypatch.setenv("JOURNAL_TOKEN", token) if token else monkeypatch.delenv("JOURNAL_TOKEN", raising=False)
            ran = run("put", where, "pages", "x")
            assert ran.code in (1, 2) and ran.out == "" and "0000" not in ran.err
    assert run("peek", path, "pages", "x").code == 1
