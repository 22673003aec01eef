"""journal put, peek, ls."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import journal
from tests.cli.conftest import Run

# --- put --------------------------------------------------------------------------------------------------------------


def entry_of(path: Path, key: str | bytes) -> journal.Entry:
    with journal.open(path) as opened:
        entry = opened.journal("pages").get(key)
        assert opened.check() == []
    assert entry is not None
    return entry


def test_put_makes_the_store_and_says_what_happened(run: Run, tmp_path: Path) -> None:
    """Inserted, then merged."""
    path = tmp_path / "new"
    first = run("put", path, "pages", "k", '{"x": 1}', "--priority", 5)
    assert (first.code, first.err) == (0, "")
    assert first.out.startswith("inserted 001-0001-000000000000000000 ")
    assert run("put", path, "pages", "k", "text").out.startswith("merged ")
    assert (entry_of(path, "k").data, entry_of(path, "k").priority) == ("text", 5)


def test_put_onto_a_version(run: Run, path: Path) -> None:
    """Another one is refused, and nothing is changed."""
    assert run("put", path, "pages", "a", "1", "--version", 7).code == 1
    assert run("put", path, "pages", "a", "1", "--version", 0).code == 1
    assert run("put", path, "pages", "a", "1", "--version", 0, "--create").code == 2
    assert entry_of(path, "a").data == {"uri": "/a"}
    assert run("put", path, "pages", "a", "1", "--version", 1).code == 0
    assert run("put", path, "pages", "new", "1", "--version", 0).out.startswith("inserted ")


def test_put_as_json(run: Run, path: Path) -> None:
    """The result's fields, the cursor as text."""
    ran = run("put", path, "pages", "k", "--delay", "2s", "--owner", "me", "--json")
    (line,) = ran.json
    assert (ran.code, line["outcome"], line["version"], line["priority"]) == (0, "inserted", 1, 100)
    assert journal.Cursor.parse(line["cursor"]).order == 1
    assert entry_of(path, "k").owner == "me"
    assert entry_of(path, "k").process_date - entry_of(path, "k").insertion_date == 2000


@pytest.mark.parametrize(
    ("word", "data"),
    [("5", 5), ("[1, 2]", [1, 2]), ("null", None), ("plain text", "plain text"), ('"5"', "5"), ("", "")],
)
def test_data_is_json_or_text(run: Run, path: Path, word: str, data: object) -> None:
    """What is not JSON is itself."""
    assert run("put", path, "pages", "k", word).code == 0
    assert entry_of(path, "k").data == data


def test_data_from_standard_input(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads bytes."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\0raw")))
    assert run("put", path, "pages", "k", "-").code == 0
    assert entry_of(path, "k").data == b"\0raw"


def test_keys_may_be_bytes(run: Run, path: Path) -> None:
    """--hex; what is no hexadecimal is a wrong argument."""
    assert run("put", path, "pages", "ff00", "--hex").code == 0
    assert entry_of(path, b"\xff\0").data is None
    assert run("put", path, "pages", "xyz", "--hex").code == 2


def test_dates_are_milliseconds_or_iso(run: Run, path: Path) -> None:
    """With a time zone; both forms mean the same moment."""
    assert (
        run("put", path, "pages", "k", "--process-date", "2040-01-01T00:00:00Z", "--expiration", "2208988800001").code
        == 0
    )
    assert (entry_of(path, "k").process_date, entry_of(path, "k").expiration) == (2_208_988_800_000, 2_208_988_800_001)


def test_create_refuses_an_existing_key(run: Run, path: Path) -> None:
    """Exit code 1, the reason on standard error, nothing changed."""
    before = entry_of(path, "a")
    ran = run("put", path, "pages", "a", "other", "--create")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("journal: ")
    assert entry_of(path, "a") == before


@pytest.mark.parametrize(
    "words",
    [
        ("pages", "k", "--priority", "256"), ("pages", "k", "--priority", "x"), ("pages", "k", "--delay", "soon"),
        ("pages", "k", "--process-date", "2040-01-01"), ("pages", "k", "--process-date", "never"), ("pages", ""),
        ("../x", "k"), ("pages", "k", "1", "2"), ("pages",), (), ("pages", "k", "--unknown"),
        ("pages", "k", "--delay", "1s", "--process-date", "2208988800000"),
    ],
)  # fmt: skip
def test_wrong_arguments(run: Run, path: Path, words: tuple[str, ...]) -> None:
    """Exit code 2 and a word about it on standard error."""
    ran = run("put", path, *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err


@pytest.mark.parametrize("date", ["253402300800000", "9223372036854775807"])
def test_dates_that_no_calendar_has(run: Run, path: Path, date: str) -> None:
    """After the year 9999 they are shown as numbers."""
    ran = run("put", path, "pages", "k", "--process-date", date)
    assert ran.code == 0
    assert date in ran.out


# --- peek -------------------------------------------------------------------------------------------------------------


def test_peek_shows_the_next_entry(run: Run, path: Path) -> None:
    """Without a key: the first in the order of work; it stays there."""
    for _ in range(2):
        ran = run("peek", path, "pages")
        assert ran.code == 0
        assert ran.out.startswith("'a' waiting, priority 10, due ")
        assert "/a" in ran.out


def test_peek_by_key(run: Run, path: Path) -> None:
    """Text or --hex; everything of it as JSON, bytes as hex."""
    (line,) = run("peek", path, "pages", "b", "--json").json
    assert (line["key"], line["owner"], line["status"], line["data"]) == ("b", "group", "W", None)
    (line,) = run("peek", path, "pages", "ff", "--hex", "--json").json
    assert (line["key"], line["data"]) == ({"hex": "ff"}, {"hex": "0001"})
    assert "owner group" in run("peek", path, "pages", "b").out


def test_peek_of_nothing(run: Run, path: Path, tmp_path: Path) -> None:
    """Exit code 1: no such entry, journal or store; and none is made."""
    assert run("peek", path, "pages", "nothing").code == 1
    assert run("peek", path, "pages", "nothing", "--json") == (1, "", "")
    missing = run("peek", path, "other")
    assert missing.code == 1
    assert "pages" in missing.err
    assert run("peek", tmp_path / "missing", "pages").code == 1
    assert not (tmp_path / "missing").exists()
    assert not (path / "other").exists()


# --- ls ---------------------------------------------------------------------------------------------------------------


def test_ls_lists_journals(run: Run, path: Path) -> None:
    """Without a journal: their names."""
    assert run("ls", path) == (0, "pages\n", "")
    assert run("ls", path, "--json").json == [{"journal": "pages"}]


def test_ls_lists_entries_in_the_order_of_work(run: Run, path: Path) -> None:
    """A line each; as JSON all columns."""
    lines = run("ls", path, "pages").out.splitlines()
    assert [line[:5] for line in lines] == ["W  10", "W  20", "W 100"]
    found = run("ls", path, "pages", "--json").json
    assert [line["key"] for line in found] == ["a", {"hex": "ff"}, "b"]
    columns = {"key", "data", "priority", "process_date", "insertion_date", "expiration", "status", "timeouts", "owner"}
    assert columns | {"version"} <= found[0].keys()


def test_ls_filters(run: Run, path: Path) -> None:
    """Status, dates, a limit."""
    assert run("claim", path, "pages").code == 0
    assert [x["key"] for x in run("ls", path, "pages", "--status", "processing", "--json").json] == ["a"]
    assert len(run("ls", path, "pages", "--status", "waiting", "--json").json) == 2
    assert len(run("ls", path, "pages", "--limit", 1, "--json").json) == 1
    assert len(run("ls", path, "pages", "--limit", 0, "--json").json) == 3
    b = run("peek", path, "pages", "b", "--json").json[0]["process_date"]
    assert [x["key"] for x in run("ls", path, "pages", "--since", b, "--json").json] == ["b"]
    assert len(run("ls", path, "pages", "--until", b, "--json").json) == 2
    assert run("ls", path, "pages", "--status", "lost").code == 2
    assert run("ls", path, "pages", "--since", "yesterday").code == 2
    assert run("ls", path, "pages", "--limit", "-1").code == 2


def test_ls_lists_the_buried(run: Run, path: Path) -> None:
    """With their reasons."""
    (lease,) = run("claim", path, "pages", "--json").json
    assert run("bury", path, "pages", lease["token"], "bad").code == 0
    (line,) = run("ls", path, "pages", "--buried", "--json").json
    assert (line["key"], line["reason"]) == ("a", "bad")
    assert "bad" in run("ls", path, "pages", "--buried").out


def test_ls_of_what_is_missing(run: Run, path: Path, tmp_path: Path) -> None:
    """Exit code 1, nothing made."""
    assert run("ls", path, "other").code == 1
    assert run("ls", tmp_path / "missing").code == 1
    assert not (tmp_path / "missing").exists()


def test_ls_of_an_empty_store(run: Run, tmp_path: Path) -> None:
    """No line, no error."""
    journal.open(tmp_path / "empty").close()
    assert run("ls", tmp_path / "empty") == (0, "", "")
