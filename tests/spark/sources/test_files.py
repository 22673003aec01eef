"""Files: a copy by Spark, then new files, each once; half-written and changed ones are seen."""

from __future__ import annotations

import datetime
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import journal
import spark_export
from journal.errors import Invalid, JournalError, NotFound
from spark_export.pipelines.contract import COMPLETE, NamespaceState
from spark_export.pipelines.message import messages_of
from spark_export.pipelines.testing import Rows, SourceContract
from spark_export.sources.files import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG_AGO = 1_600_000_000


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory for files."""
    made = tmp_path / "people [1]"  # a name that is a pattern to Spark
    made.mkdir()
    return made


def wrote(place: Path, name: str, rows: list[dict[str, Any]], at: int = LONG_AGO) -> Path:
    """A file of JSON lines, last written at this second."""
    path = place / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(path, (at, at))
    return path


def made(place: Path, spark: SparkSession, mode: str = "copy+sync", **options: Any) -> FilesSource:
    """A source of JSON lines that has begun."""
    source = FilesSource(place, "json", **{"key": ["id"], "schema": "id BIGINT, name STRING"} | options)
    source.check()
    source.start(spark, {}, mode)
    return source


def ids(parts: Any) -> list[int]:
    """Of all messages."""
    return [message.data["id"] for message in messages_of(part.table for part in parts)]


def copied(source: FilesSource) -> list[int]:
    """The ids of a copy."""
    (copy,) = source.copies(source.check())
    return sorted(ids(copy.parts) if copy.frame is None else [row.id for row in copy.frame.collect()])


class TestFilesContract(SourceContract):
    """The published suite."""

    @pytest.fixture(autouse=True)
    def files(self, place: Path) -> None:
        """Two files."""
        self.place, self.count = place, 0
        self.change()

    def make_source(self) -> FilesSource:
        """As after a restart."""
        return FilesSource(self.place, "json", key=["id"], schema="id BIGINT, name STRING")

    def change(self) -> None:
        """Two new files: the second one has a row of the first once more."""
        self.count += 1
        n = self.count * 10
        wrote(self.place, f"{n}.json", [{"id": n, "name": "a"}, {"id": n + 1, "name": None}], LONG_AGO + n)
        wrote(self.place, f"{n + 1}.json", [{"id": n, "name": "b"}], LONG_AGO + n + 1)

    def rows(self) -> Rows:
        """The last row of each key; of a copy it is the one that stands in the last file."""
        found: dict[int, dict[str, Any]] = {}
        for path in sorted(self.place.glob("*.json")):
            found |= {row["id"]: row for row in map(json.loads, path.read_text().splitlines())}
        return {"people [1]": list(found.values())}

    def fingerprint(self) -> Any:
        """Names, sizes and times."""
        return [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(self.place.iterdir())]


def test_types_of_parquet_survive(spark: SparkSession, place: Path) -> None:
    """Decimals, timestamps before 1970, bytes, arrays, nulls; in the copy, and in a file that comes later."""
    rows = {
        "id": pa.array([1, 2], pa.int64()),
        "price": pa.array([Decimal("1.10"), None], pa.decimal128(10, 2)),
        "born": pa.array([-4_000_000_000_000_001, None], pa.timestamp("us", tz="UTC")),
        "raw": pa.array([b"\0\xff", None], pa.binary()),
        "tags": pa.array([["a", None], None], pa.list_(pa.string())),
        "score": pa.array([0.1, None], pa.float64()),
    }
    parquet.write_table(pa.table(rows), place / "a.parquet")
    os.utime(place / "a.parquet", (LONG_AGO, LONG_AGO))
    source = FilesSource(place, key="id")
    source.start(spark, {}, "copy+sync")
    (copy,) = source.copies(["people [1]"])
    assert copy.frame is not None and copy.timestamp == LONG_AGO * 1000
    expected = pa.table(rows).to_pylist()
    assert sorted(copy.frame.toArrow().to_pylist(), key=lambda row: int(row["id"])) == expected
    parquet.write_table(pa.table(rows), place / "b.parquet")
    os.utime(place / "b.parquet", (LONG_AGO + 5, LONG_AGO + 5))
    messages = list(messages_of(part.table for part in next(parts for parts in source.sync() if parts)))
    assert [message.data for message in messages] == expected
    assert messages[0].data["born"] == datetime.datetime(1843, 3, 31, 16, 53, 19, 999999, tzinfo=datetime.UTC)
    assert {(message.op, message.timestamp) for message in messages} == {("insert", (LONG_AGO + 5) * 1000)}


def test_names_of_unfinished_files_are_passed_over(spark: SparkSession, place: Path) -> None:
    """F1: hidden ones, those of _temporary, and a manifest."""
    for name in ("a.json", "_b.json", ".c.json", "_temporary/d.json", "inner/e.json"):
        wrote(place, name, [{"id": len(name)}])
    assert copied(made(place, spark)) == [len("a.json"), len("inner/e.json")]


def test_a_file_that_grows_is_taken_when_it_is_finished(spark: SparkSession, place: Path) -> None:
    """F2: not while its size changes from look to look; then once."""
    source = made(place, spark)
    assert copied(source) == []
    stream = source.sync()
    rows = [{"id": 1}]
    for n in range(2, 4):
        wrote(place, "a.json", rows)
        assert next(stream) == []
        rows.append({"id": n})
    wrote(place, "a.json", rows)
    assert next(stream) == []
    assert ids(next(stream)) == [1, 2, 3]
    assert next(stream) == []


def test_a_file_that_was_written_a_moment_ago_waits(spark: SparkSession, place: Path) -> None:
    """F2: with a copy alone it is an error, since no later look would take it."""
    path = wrote(place, "a.json", [{"id": 1}])
    os.utime(path)
    assert copied(made(place, spark, settle_ms=3_600_000)) == []
    with pytest.raises(JournalError, match=r"still being written: a\.json"):
        copied(made(place, spark, "copy", settle_ms=3_600_000))
    assert copied(made(place, spark, "copy", settle_ms=0)) == [1]


def test_a_changed_file_is_an_error_or_comes_again(spark: SparkSession, place: Path) -> None:
    """F3: also after a restart, from the position."""
    wrote(place, "a.json", [{"id": 1}])
    source = made(place, spark)
    (copy,) = source.copies(["people [1]"])
    states = {"people [1]": NamespaceState("people [1]", COMPLETE, copy.position)}
    wrote(place, "a.json", [{"id": 1}, {"id": 2}])
    with pytest.raises(JournalError, match=r"a\.json in .* was changed after it had been read.*changed = 'again'"):
        next(source.sync())
    again = made(place, spark, changed="again")
    again.start(spark, states, "copy+sync")
    assert ids(next(parts for parts in again.sync() if parts)) == [1, 2]


def test_a_position_is_compact(spark: SparkSession, place: Path) -> None:
    """16 characters for a file; files that are gone are forgotten."""
    for n in range(5):
        wrote(place, f"{n}.json", [{"id": n}])
    source = made(place, spark)
    (copy,) = source.copies(["people [1]"])
    assert len(copy.position) == 5 * 16
    for n in range(4):
        (place / f"{n}.json").unlink()
    wrote(place, "9.json", [{"id": 9}])
    (part,) = next(parts for parts in source.sync() if parts)
    assert len(part.position) == 2 * 16


def test_csv_has_texts_unless_a_schema_is_given(spark: SparkSession, place: Path) -> None:
    """F4; the first line has the names."""
    path = place / "a.csv"
    path.write_text("id,name\n01,x\n")
    os.utime(path, (LONG_AGO, LONG_AGO))
    for schema, expected in ((None, "01"), ("id INT, name STRING", 1)):
        source = FilesSource(place, "csv", schema=schema)
        source.start(spark, {}, "copy")
        (copy,) = source.copies(["people [1]"])
        assert copy.frame is not None and [row.id for row in copy.frame.collect()] == [expected]


@pytest.mark.parametrize(
    ("kind", "options"), [("parquet", {}), ("csv", {}), ("csv", {"header": "true"}), ("json", {})], ids=str
)
def test_an_export_of_ours_is_read_by_its_manifest(
    spark: SparkSession, tmp_path: Path, out: Path, kind: str, options: dict[str, str]
) -> None:
    """F4, F5: its schema, bytes that were written as base64, and its timeline; CSV with and without a line of names."""
    with journal.open(tmp_path / "work.journal") as store:
        pages = store.journal("pages", timeline="counter-7")
        pages.put(b"\xff\0", {"n": 1}, process_date=1_500_000_000_123)
        spark_export.export(store, "pages", out / "pages", format=kind, options=options, spark=spark)
    source = FilesSource(out / "pages", kind, key=["key", "key_bytes"], settle_ms=0)
    assert (source.check(), source.timeline) == (["pages"], "counter-7")
    source.start(spark, {}, "copy")
    (copy,) = source.copies(["pages"])
    assert copy.frame is not None
    (row,) = copy.frame.toArrow().to_pylist()
    assert (row["key"], row["key_bytes"], row["data"]) == (None, b"\xff\0", '{"n":1}')
    assert row["process_date"] == datetime.datetime(2017, 7, 14, 2, 40, 0, 123000, tzinfo=datetime.UTC)


def test_what_is_wrong_is_said(spark: SparkSession, place: Path) -> None:
    """No directory, no such format, no such key, a file that is none of the format."""
    with pytest.raises(NotFound, match="is no directory"):
        FilesSource(place / "none").check()
    with pytest.raises(Invalid, match="format is 'orc': it must be one of parquet, csv, json"):
        FilesSource(place, "orc")
    wrote(place, "a.json", [{"id": 1}])
    with pytest.raises(Invalid, match=r"has no column uid for the key: the columns are id, name"):
        copied(made(place, spark, key=["uid"]))
    source = FilesSource(place, "parquet")
    source.start(spark, {}, "sync")
    with pytest.raises(JournalError, match=r"a\.json|JOURNAL_TARGET_FAILED"):
        next(parts for parts in source.sync() if parts)
