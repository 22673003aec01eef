"""journal claim."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import journal
from tests.cli.conftest import Run
from tests.engine.work.claims.sharing import bucket


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
