"""`journal load`: files of three kinds, all rows or none."""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import journal

pa = pytest.importorskip("pyarrow", reason="pip install 'journal[spark]'")

from pyarrow import csv, parquet  # noqa: E402 - needs pyarrow

from spark_export.cli import load as cli_load  # noqa: E402

NOW = 1_700_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a journal, without an owner."""
    with journal.open(tmp_path / "work.journal") as store:
        store.journal("pages").put("there", "before")
    return tmp_path / "work.journal"


def load(path: Path, *words: str | Path) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    cli_load.arguments(parser)
    parser.add_argument("--json", action="store_true")
    return cli_load.run(parser.parse_args([str(path), "pages", *map(str, words)]))


def entries(path: Path) -> dict[Any, journal.Entry]:
    with journal.open(path) as store:
        assert store.check() == []
        found = {entry.key: entry for entry in store.journal("pages").scan()}
    assert [child.name for child in path.parent.iterdir() if ".load-" in child.name] == []
    return found


def data(path: Path) -> dict[Any, Any]:
    return {key: entry.data for key, entry in entries(path).items()}


def test_parquet(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Columns are what their names say, and keep their types."""
    table = pa.table(
        {
            "key": ["a", "b"],
            "priority": [1, 2],
            "process_date": pa.array([NOW, NOW + 1], pa.timestamp("ms", "UTC")),
            "n": [1.5, 2.5],
        }
    )
    parquet.write_table(table, tmp_path / "rows.parquet")
    assert load(path, tmp_path / "rows.parquet", "--json") == 0
    assert json.loads(capsys.readouterr().out) | {"cursor": ""} == {
        "inserted": 2, "merged": 0, "replaced": 0, "queued": 0, "ignored": 0, "skipped": 0, "rejected": 0, "is_repeated": False,
        "cursor": "",
    }  # fmt: skip
    found = entries(path)
    assert (found["b"].data, found["b"].priority, found["b"].process_date) == ({"n": 2.5}, 2, NOW + 1)


def test_csv(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key of digits stays a text; dates are milliseconds or moments; what is not given is not there."""
    (tmp_path / "rows.csv").write_text(
        'id;due;process_date;data\n007;x;2023-11-14T22:13:20.000Z;"{""a"": [1, ""b""]}"\n8;y;2023-11-14T22:13:21.000Z;\n'
    )
    with pytest.raises(journal.Invalid, match=r"\[JOURNAL_COLUMN_UNKNOWN\] the columns 'due' have no use"):
        load(path, tmp_path / "rows.csv", "--delimiter", ";", "--key", "id")
    assert load(path, tmp_path / "rows.csv", "--delimiter", ";", "--key", "id", "--owner", "due", "--quiet") == 0
    found = entries(path)
    assert (found["007"].data, found["007"].process_date, found["007"].owner) == ({"a": [1, "b"]}, NOW, "x")
    assert (found["8"].data, found["8"].process_date) == (None, NOW + 1000)
    assert capsys.readouterr().out.startswith("2 inserted ")


def test_json_lines(path: Path, tmp_path: Path) -> None:
    """A line is an object with what it has; packed files are unpacked."""
    lines = [
        {"key": "a", "process_date": NOW, "uri": "/a", "tags": [1, None]},
        {"key": "b", "process_date": "2023-11-14T22:13:20Z", "n": 1},
        {"key_bytes": "/w==", "data": {"deep": {"x": [True]}}},
        {"key": "c", "data": '{"raw": {"$bytes": "AA=="}}', "status": "W"},
    ]
    with gzip.open(tmp_path / "rows.jsonl.gz", "wt") as file:
        file.write("\n".join(json.dumps(line) for line in lines) + "\n\n")
    assert load(path, tmp_path / "rows.jsonl.gz", "--delay", "1h") == 0
    found = entries(path)
    assert (found["a"].data, found["a"].process_date) == ({"uri": "/a", "tags": [1, None]}, NOW)
    assert (found["b"].data, found["b"].process_date) == ({"n": 1}, NOW)
    assert found[b"\xff"].data == {"deep": {"x": [True]}} and found["c"].data == {"raw": b"\0"}
    assert found["c"].process_date - found["c"].insertion_date >= 3_500_000


def test_bad_rows_are_listed(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --rejects; without it nothing is changed."""
    (tmp_path / "rows.jsonl").write_text(
        '{"key": "a"}\n{"key"\n{"key": "b", "priority": 999}\n{"key": "c", "expiration": "soon"}\n[]\n'
    )
    with pytest.raises(journal.Invalid, match=r"\[JOURNAL_ROWS_REJECTED\] row 1 of partition 0"):
        load(path, tmp_path / "rows.jsonl")
    assert data(path) == {"there": "before"}
    assert load(path, tmp_path / "rows.jsonl", "--rejects", tmp_path / "bad.jsonl") == 0
    assert data(path) == {"there": "before", "a": None}
    assert "1 inserted, 4 rejected" in capsys.readouterr().out
    listed = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert [(one["row"], one["key"]) for one in listed] == [(1, None), (2, "b"), (3, "c"), (4, None)]
    assert "priority" in listed[1]["reason"] and "ISO 8601" in listed[2]["reason"]


def test_a_directory_is_all_of_its_files(path: Path, tmp_path: Path) -> None:
    """As Spark writes them: partitions are columns, other files are passed over; all of it is one change."""
    for priority, key in ((5, "a"), (6, "b")):
        where = tmp_path / "out" / f"priority={priority}"
        where.mkdir(parents=True)
        parquet.write_table(pa.table({"key": [key]}), where / "part-0.parquet")
    (tmp_path / "out" / "_SUCCESS").touch()
    assert load(path, tmp_path / "out") == 0
    assert {key: entry.priority for key, entry in entries(path).items()} == {"there": 100, "a": 5, "b": 6}


def test_conflicts_and_repetitions(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As asked."""
    csv.write_csv(pa.table({"key": ["there"], "data": ['"after"']}), tmp_path / "rows.csv")
    with pytest.raises(journal.KeyExists, match=r"\[JOURNAL_KEY_EXISTS\].*there"):
        load(path, tmp_path / "rows.csv", "--on-conflict", "error")
    assert load(path, tmp_path / "rows.csv", "--once", "nightly", "1") == 0
    assert data(path) == {"there": "after"}
    assert load(path, tmp_path / "rows.csv", "--once", "nightly", "1") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nightly 1 was loaded before: nothing was changed"


def test_what_is_no_file_is_named(path: Path, tmp_path: Path) -> None:
    """With the reason, and nothing is changed."""
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 not really")
    (tmp_path / "rows").write_text("")
    for name, says in (
        ("rows.parquet", "cannot read .*rows.parquet"),
        ("rows", "--format"),
        ("none.csv", "there is no file"),
    ):
        with pytest.raises(journal.JournalError, match=says):
            load(path, tmp_path / name)
    assert data(path) == {"there": "before"}


def test_a_journal_is_made_when_asked(tmp_path: Path) -> None:
    """Not otherwise."""
    parquet.write_table(pa.table({"key": ["a"]}), tmp_path / "rows.parquet")
    with pytest.raises(journal.NotFound, match="JOURNAL_STORE_NOT_FOUND"):
        load(tmp_path / "new.journal", tmp_path / "rows.parquet")
    assert load(tmp_path / "new.journal", tmp_path / "rows.parquet", "--create") == 0
    assert data(tmp_path / "new.journal") == {"a": None}


def test_a_schema_types_the_columns(tmp_path: Path) -> None:
    """Texts of CSV become what the schema declares; the key is formed of fields."""
    with journal.open(tmp_path / "work.journal") as store:
        store.journal(
            "pages",
            schema=journal.Schema({"site": "text", "n": "int", "tags": "list", "on": "date_ms"}, key=["site", "n"]),
        )
    (tmp_path / "rows.csv").write_text('site,n,tags,on\n1.5,7,"[1]",2023-11-14T22:13:20.000Z\n')
    assert load(tmp_path / "work.journal", tmp_path / "rows.csv") == 0
    assert data(tmp_path / "work.journal") == {"1.5:7": {"site": "1.5", "n": 7, "tags": [1], "on": NOW}}


def test_a_store_that_a_daemon_owns(path: Path, tmp_path: Path) -> None:
    """It is asked, in the words of the command line."""
    (tmp_path / "rows.jsonl").write_text('{"key": "a", "n": 1}\n')

    def run(name: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "journal", "load", str(path), name, str(tmp_path / "rows.jsonl")]
        return subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)

    with journal.open(path) as store, store.serve():
        done = run("pages")
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("1 inserted ")
        assert store.journal("pages").count() == 2
        failed = run("sites")
        assert failed.returncode == 1 and "[JOURNAL_NOT_FOUND]" in failed.stderr
    assert data(path) == {"there": "before", "a": {"n": 1}}


def test_a_repetition_keeps_the_list_of_rejected_rows(path: Path, tmp_path: Path) -> None:
    """And a list that cannot be written is told before anything is made or loaded."""
    (tmp_path / "rows.csv").write_text("key,priority\na,1\nb,999\n")
    for _ in range(2):
        assert load(path, tmp_path / "rows.csv", "--rejects", tmp_path / "bad.jsonl", "--once", "nightly", "1") == 0
        assert json.loads((tmp_path / "bad.jsonl").read_text())["key"] == "b"
    with pytest.raises(journal.Invalid, match=r"\[JOURNAL_OPTION_INVALID\] rejects"):
        load(tmp_path / "new", tmp_path / "rows.csv", "--rejects", tmp_path / "no" / "bad.jsonl", "--create")
    assert not (tmp_path / "new").exists()


def test_only_directories_below_the_one_that_is_named_are_partitions(path: Path, tmp_path: Path) -> None:
    """A name further up is of no concern to the rows; one that has no value of its column is told."""
    top = tmp_path / "team=blue" / "in"
    (top / "priority=7").mkdir(parents=True)
    (top / "priority=7" / "rows.csv").write_text("key\na\n")
    (top / "priority=7" / "rows.jsonl").write_text('{"key": "b"}\n')
    assert load(path, top) == 0
    found = entries(path)
    assert [(found[key].data, found[key].priority) for key in "ab"] == [(None, 7), (None, 7)]
    assert load(path, top / "priority=7" / "rows.csv", "--on-conflict", "replace") == 0
    assert entries(path)["a"].priority == 100
    for name in ("priority=high", "priority=99999"):
        (top / "priority=7").rename(top / name)
        with pytest.raises(journal.Invalid, match=rf"\[JOURNAL_FILE_INVALID\] the directory '{name}'"):
            load(path, top)
        (top / name).rename(top / "priority=7")


def test_a_value_that_no_entry_can_have_is_a_rejected_row(path: Path, tmp_path: Path) -> None:
    """It does not fail the others: half a surrogate, a map with a key twice, a date beyond 63 bits."""
    (tmp_path / "rows.jsonl").write_text('{"key": "\\ud800"}\n{"key": "b", "owner": "\\udfff"}\n{"key": "c"}\n')
    maps = pa.array([[("k", 1), ("k", 2)], [("k", 1)]], pa.map_(pa.string(), pa.int64()))
    parquet.write_table(pa.table({"key": ["d", "e"], "m": maps}), tmp_path / "fields.parquet")
    parquet.write_table(pa.table({"key": ["f", "g"], "data": maps}), tmp_path / "whole.parquet")
    dates = pa.array([1 << 63, NOW], pa.uint64())
    parquet.write_table(pa.table({"key": ["h", "i"], "process_date": dates}), tmp_path / "dates.parquet")
    files = [tmp_path / name for name in ("rows.jsonl", "fields.parquet", "whole.parquet", "dates.parquet")]
    for file in files:
        with pytest.raises(journal.Invalid, match=r"\[JOURNAL_ROWS_REJECTED\] row 0 of partition 0"):
            load(path, file)
    assert load(path, *files, "--rejects", tmp_path / "bad.jsonl") == 0
    listed = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert [(one["partition"], one["row"], one["key"]) for one in listed] == [
        (0, 0, "\ud800"), (0, 1, "b"), (1, 0, "d"), (2, 0, "f"), (3, 0, "h"),
    ]  # fmt: skip
    assert "twice" in listed[2]["reason"] and "process_date" in listed[4]["reason"]
    found = entries(path)
    assert found.keys() == {"there", "c", "e", "g", "i"} and found["i"].process_date == NOW
    assert found["e"].data == {"m": {"k": 1}} and found["g"].data == {"k": 1}


def test_a_load_without_rows(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its cursor is one that the journal knows."""
    (tmp_path / "rows.csv").write_text("key,x\n")
    assert load(path, tmp_path / "rows.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out)["cursor"] == str(journal.Cursor(1, 0))
