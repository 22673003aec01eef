"""journal put."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import journal
from tests.cli.conftest import Run


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
