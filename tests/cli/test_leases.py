"""journal claim, done, release, bury, retry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from tests.cli.conftest import Run
from tests.engine.work.claims.sharing import bucket

# --- claim ------------------------------------------------------------------------------------------------------------


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


def test_claim_by_buckets(run: Run, path: Path, check: Callable[[], None]) -> None:
    """Both ends of the range are in it; what is no range is said."""
    with journal.open(path) as opened:
        opened.journal("some").put_many([journal.Put(f"k{n}") for n in range(20)])
    low = run("claim", path, "some", "-n", 50, "--buckets", "0-511", "--json").json
    high = run("claim", path, "some", "-n", 50, "--buckets", "512-1023", "--json").json
    assert sorted(lease["key"] for lease in low + high) == sorted(f"k{n}" for n in range(20))
    assert all(bucket(lease["key"], 1024) < 512 for lease in low)
    assert low and high
    refused = run("claim", path, "some", "--buckets", "9-3")
    assert refused.code == 2
    assert "the last, 3, is before the first, 9" in refused.err
    assert "there are 1024" in run("claim", path, "some", "--buckets", "0-1024").err
    check()


# --- done -------------------------------------------------------------------------------------------------------------


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


# --- release ----------------------------------------------------------------------------------------------------------


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


# --- bury, retry ------------------------------------------------------------------------------------------------------


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
