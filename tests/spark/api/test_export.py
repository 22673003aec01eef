"""Exports: whole or not there, of one moment, with a manifest; also from the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import journal
import spark_export
from journal import CursorUnavailable, Field, Invalid, KeyExists, NotFound, Schema
from journal.cli import main
from journal.core.limits import DATE_MAX
from spark_export import export as module_function
from spark_export.columns.layout import FIELD, TIMELINE, TYPE
from spark_export.exports.manifest import NAME, ExportManifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'journal[spark]'")

SCHEMA = Schema([Field("uri", "text", required=True), Field("depth", "uint8"), Field("seen", "date_ms")])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store without an owner, with a journal of ten entries."""
    made = tmp_path / "work.journal"
    with journal.open(made) as store:
        pages = store.journal("pages", schema=SCHEMA)
        pages.put_many(
            [
                journal.Put(f"k{n}", {"uri": f"/{n}", "depth": n, "seen": 1_700_000_000_000}, priority=n % 2)
                for n in range(9)
            ]
        )
        pages.put(b"\xff", {"uri": "/raw"})
    return made


def names(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


def test_an_export_is_whole_with_a_manifest(spark: SparkSession, path: Path, out: Path) -> None:
    """Rows, cursor, schema, timeline and files; and the meaning of columns is in the files."""
    done = spark_export.export(path, "pages", out / "full", spark=spark)
    assert names(out) == {"full"}
    assert done == spark_export.manifest_of(out / "full", spark)
    assert (done.rows, done.deleted, done.since, done.format, done.filters) == (10, 0, None, "parquet", {})
    assert (done.journal, done.timeline, done.schema, done.decode) == ("pages", "epoch-ms", SCHEMA, "auto")
    assert {name: (out / "full" / name).stat().st_size for name in done.files} == done.files and done.files
    with journal.open(path) as store:
        assert done.cursor == store.journal("pages").durable_cursor
    frame = spark.read.parquet(str(out / "full"))
    assert frame.schema["depth"].metadata == {FIELD: "depth", TYPE: "uint8"}
    assert frame.schema["process_date"].metadata == {TIMELINE: "epoch-ms"}
    assert {row.key or bytes(row.key_bytes) for row in frame.collect()} == {*(f"k{n}" for n in range(9)), b"\xff"}


@pytest.mark.parametrize(
    ("kind", "options"), [("csv", {"header": "true"}), ("json", {}), ("orc", {"compression": "zlib"})]
)
def test_any_format(spark: SparkSession, path: Path, out: Path, kind: str, options: dict[str, str]) -> None:
    """Options go to the writer; where a format has no bytes, they are base64, and the manifest says so."""
    done = spark_export.export(path, "pages", out / kind, format=kind, options=options, spark=spark)
    assert done.rows == 10 and done.base64 == (("key_bytes",) if kind == "csv" else ())
    frame = spark.read.format(kind).options(**options).load(str(out / kind))
    assert frame.count() == 10
    assert {row.uri for row in frame.select("uri").collect()} == {"/raw", *(f"/{n}" for n in range(9))}


def test_partitions_filters_and_columns(spark: SparkSession, path: Path, out: Path) -> None:
    """As the reader has them; an export that leaves rows out says so."""
    done = spark_export.export(
        path,
        "pages",
        out / "part",
        partition_by="priority",
        read={"priority": "0-1", "columns": "uri,priority"},
        spark=spark,
    )
    assert done.rows == 9 and done.filters == {"priority": "0-1"} and done.partition_by == ("priority",)
    assert {"priority=0", "priority=1"} <= names(out / "part")
    assert spark.read.parquet(str(out / "part")).where("priority = 1").count() == 4


def test_a_target_that_is_there_is_not_touched(spark: SparkSession, path: Path, out: Path) -> None:
    """Unless it is to be replaced."""
    (out / "full").mkdir()
    (out / "full" / "mine").write_text("x")
    with pytest.raises(KeyExists, match=r"^\[JOURNAL_TARGET_EXISTS\]"):
        spark_export.export(path, "pages", out / "full", spark=spark)
    assert names(out / "full") == {"mine"} and names(out) == {"full"}
    done = spark_export.export(path, "pages", out / "full", replace=True, read={"columns": "key"}, spark=spark)
    assert done.rows == 10 and names(out) == {"full"} and "mine" not in names(out / "full")


def test_a_failed_export_leaves_nothing(spark: SparkSession, path: Path, out: Path) -> None:
    """E2: an entry that no timestamp can hold fails a task; the old export stays."""
    (out / "full").mkdir()
    with journal.open(path) as store:
        store.journal("pages").put("far", {"uri": "/far"}, process_date=DATE_MAX)
    with pytest.raises(journal.JournalError, match=r"^\[JOURNAL_DATE_RANGE\] [^\n]*$"):
        spark_export.export(path, "pages", out / "full", replace=True, spark=spark)
    assert names(out) == {"full"} and names(out / "full") == set()
    journal.open(path).close()


def test_an_interrupted_export_is_begun_again(spark: SparkSession, path: Path, out: Path) -> None:
    """What was half written goes."""
    (out / ".full.exporting").mkdir()
    (out / ".full.exporting" / "part-0").write_text("half")
    done = spark_export.export(path, "pages", out / "full", read={"columns": "key"}, spark=spark)
    assert done.rows == 10 and names(out) == {"full"} and "part-0" not in names(out / "full")


def test_the_store_is_free_while_spark_writes(
    spark: SparkSession, path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E4: the next owner need not wait for Spark; what is put then is not in the export."""
    job: Any = sys.modules["spark_export.api.export"]._Job  # type: ignore[attr-defined]
    write = job._write

    def opened_meanwhile(self: Any, *args: Any) -> Any:
        with journal.open(path) as store:
            store.journal("pages").put("late", {"uri": "/late"})
        return write(self, *args)

    monkeypatch.setattr(job, "_write", opened_meanwhile)
    assert spark_export.export(path, "pages", out / "full", read={"columns": "key"}, spark=spark).rows == 10


def test_a_store_that_is_open_is_exported_as_it_is_now(
    spark: SparkSession, store: journal.Store, pages: journal.Journal, out: Path
) -> None:
    """Without a checkpoint of the user's own."""
    last = pages.put("a", 1)
    done = spark_export.export(store, "pages", out / "full", spark=spark)
    assert (done.rows, done.cursor) == (1, last.cursor)


def state(store: journal.Store) -> dict[Any, Any]:
    """The entries of the journal, as rows say them."""
    return {entry.key: (entry.data["uri"], entry.version, entry.status) for entry in store.journal("pages").scan()}


def applied(spark: SparkSession, *targets: Path) -> dict[Any, Any]:
    """What a full export and those since it come to."""
    found: dict[Any, Any] = {}
    for target in targets:
        for row in spark.read.parquet(str(target)).collect():
            key = row.key if row.key is not None else bytes(row.key_bytes)
            if row.asDict().get("is_deleted"):
                found.pop(key, None)  # one that came and went in between was never there
            else:
                found[key] = (row.uri, row.version, row.status)
    return found


def test_what_has_changed_since(spark: SparkSession, path: Path, out: Path) -> None:
    """E3: the full export and those that follow it give the journal as it is; each has the changed keys only."""
    spark_export.export(path, "pages", out / "0", hold="nightly", spark=spark)
    with journal.open(path) as store:
        pages = store.journal("pages")
        pages.put("k1", {"uri": "/other"})
        pages.put("new", {"uri": "/new"})
        pages.put("short", {"uri": "/short"})
        pages.delete("short")
        pages.delete("k2")
        assert pages.claim(consumer="c", lease="1h") is not None  # k0, which comes first
        store.checkpoint()
    one = spark_export.export(path, "pages", out / "1", since=out / "0", hold="nightly", spark=spark)
    assert one.since == spark_export.manifest_of(out / "0", spark).cursor
    assert (one.rows, one.deleted) == (5, 2)
    found = {row.key: row.is_deleted for row in spark.read.parquet(str(out / "1")).collect()}
    assert found == {"k0": False, "k1": False, "new": False, "short": True, "k2": True}
    with journal.open(path) as store:
        assert [(feed.name, feed.position) for feed in store.journal("pages").feeds()] == [("nightly", one.cursor)]
        store.journal("pages").delete(b"\xff")
        expected = state(store)
    two = spark_export.export(path, "pages", out / "2", since=one, spark=spark)
    assert (two.rows, two.deleted) == (1, 1)
    assert spark_export.export(path, "pages", out / "3", since=two.cursor, spark=spark).rows == 0
    found = applied(spark, out / "0", out / "1", out / "2", out / "3")
    assert found == expected


def test_since_a_place_that_is_gone(spark: SparkSession, path: Path, out: Path) -> None:
    """Not fewer changes than there were: an error that says how to have them next time."""
    with journal.open(path) as store:
        pages = store.journal("pages", segment_bytes_max=1 << 16)
        for n in range(300):
            pages.put(f"more-{n % 3}", {"uri": "/" * 1000})
            store.checkpoint()
        assert pages.oldest_cursor > journal.Cursor(1, -1)
    with pytest.raises(CursorUnavailable, match=r"^\[JOURNAL_CURSOR_UNAVAILABLE\] .*hold=NAME"):
        spark_export.export(path, "pages", out / "1", since=journal.Cursor(1, -1), spark=spark)
    assert names(out) == set()


@pytest.mark.parametrize(
    ("kept", "error"),
    [
        ({"read": {"path": "x"}}, Invalid),
        ({"read": {"stauts": "x"}}, Invalid),
        ({"partition_by": ["none"]}, Invalid),
        ({"since": "nowhere"}, NotFound),
        ({"since": "001-0001--1", "read": {"status": "waiting"}}, Invalid),
    ],
)
def test_mistakes_are_told_before_anything_is_written(
    spark: SparkSession, path: Path, out: Path, kept: dict[str, Any], error: type[Exception]
) -> None:
    """With a code; the place stays empty."""
    with pytest.raises(error, match=r"^\[JOURNAL_"):
        module_function(path, "pages", out / "full", spark=spark, **kept)
    assert names(out) == set()


def test_the_command_exports(spark: SparkSession, path: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`journal export` prints what was written, for people and as JSON."""
    words = ["export", str(path), "pages", str(out / "full"), "--columns", "key,priority", "--partition-by", "priority"]
    assert main([*words, "--option", "compression=none"]) == 0
    assert capsys.readouterr().out.startswith("10 rows, ")
    assert not any("snappy" in file.name for file in (out / "full").rglob("*"))
    assert main([*words, "--json", "--replace"]) == 0
    kept = capsys.readouterr().out
    assert ExportManifest.from_json(kept, "here") == ExportManifest.from_json((out / "full" / NAME).read_text(), "here")
    assert main(words) == 1
    assert "[JOURNAL_TARGET_EXISTS]" in capsys.readouterr().err
    assert main([*words[:3], str(out / "x"), "--option", "compression"]) == 2
    capsys.readouterr()
    assert main([*words[:3], str(out / "x"), "--format", "nosuch"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("journal: [JOURNAL_TARGET_FAILED]") and told.count("\n") == 1 and not (out / "x").exists()
    for target, more, code in (
        (str(out / "x"), ["--columns", "nosuch"], "JOURNAL_COLUMN_UNKNOWN"),
        ("nosuch://there/x", [], "JOURNAL_TARGET_FAILED"),
    ):
        assert main([*words[:3], target, *more]) == 1
        told = capsys.readouterr().err
        assert told.startswith(f"journal: [{code}]") and told.count("\n") == 1
    assert spark.range(1).count() == 1  # the session of others goes on


def test_without_spark_the_command_says_how_to_get_it(
    path: Path, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not with a traceback."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert main(["export", str(path), "pages", str(out / "x"), "--json"]) == 2
    told = json.loads(capsys.readouterr().err)
    assert told["message"] == "[JOURNAL_SPARK_MISSING] pyspark is not installed: pip install 'journal[spark]'"
    assert names(out) == set()
