"""CSV: what is loaded is what stands there, and what was exported comes back as it was."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import journal
from journal.cli import main

pa = pytest.importorskip("pyarrow", reason="pip install 'journal[spark]'")

from spark_export.files import csv  # noqa: E402 - needs pyarrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = 1_700_000_000_123
KEYS = [
    "a", "a ", " a", "b\\n", "\\x", "\\", "\\\\", '"', '""', "\\\"", "c\r", "c\nd", "\td", "e,f", "null", "007", "ü \u2028", "#k", "' q'",
    "\ufeffk", "'", "-", "  ", "\x7f", b"\xff\0",
]  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a journal, without an owner."""
    with journal.open(tmp_path / "work.journal") as store:
        store.journal("pages")
    return tmp_path / "work.journal"


def entries(path: Path, name: str = "pages") -> dict[Any, Any]:
    with journal.open(path) as store:
        assert store.check() == []
        found = {entry.key: entry for entry in store.journal(name).scan()}
    assert [child.name for child in path.parent.iterdir() if ".load-" in child.name] == []
    return {
        key: (entry.data, entry.priority, entry.process_date, entry.insertion_date, entry.expiration, entry.owner)
        for key, entry in found.items()
    }


def load(path: Path, text: str | bytes, *words: str) -> int:
    file = path.parent / "rows.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return main(["load", str(path), "pages", str(file), *words])


def test_out_and_back(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """Whatever is in a key, an owner or the data: spaces, quotes, backslashes and line ends stay."""
    import spark_export

    with journal.open(path) as store:
        pages = store.journal("pages")
        for n, key in enumerate(KEYS):
            owner = key if isinstance(key, str) and n % 2 else None
            pages.put(key, {"n": key}, priority=n, process_date=NOW + n, insertion_date=NOW, owner=owner)
        store.journal("back")
    spark_export.export(path, "pages", tmp_path / "out", format="csv", options={"header": "true"}, spark=spark)
    assert main(["load", str(path), "back", str(tmp_path / "out")]) == 0
    assert entries(path, "back") == entries(path)
    read = spark.read.options(header=True, escape='"', multiLine=True, ignoreLeadingWhiteSpace=False)
    found = read.option("ignoreTrailingWhiteSpace", False).csv(str(tmp_path / "out"))
    assert {" a", "a ", "b\\n", "e,f"} < {row.key for row in found.collect()}


def test_what_the_user_says_of_the_writer_counts(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """However it is written."""
    import spark_export

    with journal.open(path) as store:
        store.journal("pages").put(' "a', 1)
    options = {"header": "true", "ESCAPE": "\\", "ignoreleadingwhitespace": "true"}
    spark_export.export(
        path,
        "pages",
        tmp_path / "out",
        format="csv",
        options=options,
        read={"columns": "key"},
        partitions=1,
        spark=spark,
    )
    (file,) = (tmp_path / "out").glob("*.csv")
    assert file.read_text() == 'key\n"\\"a"\n'


def test_a_column_that_nobody_declares_is_text(path: Path) -> None:
    """As it stands; the journal's own columns have their types."""
    assert load(path, "key,zip,phone,x,priority,process_date\na,00501,+4930,1e3,7,1700000000000\n") == 0
    assert entries(path)["a"][:3] == ({"zip": "00501", "phone": "+4930", "x": "1e3"}, 7, 1_700_000_000_000)


def test_types_are_found_out_when_asked(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the first values; one that does not fit is an error, and nothing is changed."""
    assert load(path, "key,n,x\na,1,y\n", "--types", "infer") == 0
    assert entries(path)["a"][0] == {"n": 1, "x": "y"}
    rows = "".join(f"k{n},{n}\n" for n in range(450_000))
    assert load(path, f"key,n\n{rows}z,text\n", "--types", "infer") == 2
    assert "[JOURNAL_FILE_INVALID]" in capsys.readouterr().err
    assert entries(path).keys() == {"a"}


def test_where_a_text_stands_does_not_matter(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first block of a file, or behind many numbers."""
    monkeypatch.setattr(csv, "CSV_BLOCK_BYTES", 256)
    assert load(path, "key,x\n" + "".join(f"k{n},{n}\n" for n in range(200)) + "z,text\n") == 0
    found = entries(path)
    assert found["k7"][0] == {"x": "7"} and found["z"][0] == {"x": "text"} and len(found) == 201


@pytest.mark.parametrize("types", ["text", "infer"])
@pytest.mark.parametrize("row", [1, 200])
def test_bytes_that_are_no_text_are_named(
    path: Path, types: str, row: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By row and column, in whichever block they are; they are not loaded as bytes."""
    monkeypatch.setattr(csv, "CSV_BLOCK_BYTES", 256)
    lines = [b"k%d,x" % n for n in range(1, row)] + ["a,é".encode("latin-1"), b"z,y"]
    assert load(path, b"key,name\n" + b"\n".join(lines) + b"\n", "--types", types) == 2
    told = capsys.readouterr().err
    assert "[JOURNAL_FILE_INVALID]" in told and f"row {row} " in told and "column 'name', has b'\\xe9'" in told
    assert entries(path) == {}


def test_a_header_that_is_no_text(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is told like the rest."""
    assert load(path, "key,é\na,1\n".encode("latin-1")) == 2
    assert "[JOURNAL_FILE_INVALID] the header" in capsys.readouterr().err


def test_an_escape_that_would_vanish_is_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Wherever a file is cut into pieces; before a quote, or before itself, it is one."""
    assert load(path, 'key,x\n"a\\"",b\\\\\n', "--escape", "\\") == 0
    assert entries(path)['a"'][0] == {"x": "b\\"}
    for before in (1, (1 << 20) - 10, (1 << 20) - 9, (1 << 20) - 8):
        assert load(path, f"key,x\n{'k' * before},C:\\new\n", "--escape", "\\") == 2
        told = capsys.readouterr().err
        assert "[JOURNAL_FILE_INVALID] line 2 of" in told and "'\\\\n'" in told
    assert entries(path).keys() == {'a"'}


@pytest.mark.parametrize(
    "words", [("--delimiter", "abc"), ("--delimiter", ""), ("--delimiter", '"'), ("--escape", "§")]
)
def test_signs_that_are_none_are_told(path: Path, words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """With a code, before anything is read."""
    assert load(path, "key\na\n", *words) == 2
    assert "[JOURNAL_OPTION_INVALID]" in capsys.readouterr().err
    assert entries(path) == {}
