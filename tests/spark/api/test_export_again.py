"""One export after another: what was cut short is finished or begun again, and `since` goes on in the same journal only."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import journal
import spark_export
from journal.cli import main
from spark_export.exports.target import LocalTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'journal[spark]'")

ONLY_KEYS = {"columns": "key,key_bytes,priority"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store without an owner, with a journal of ten entries."""
    made = tmp_path / "work.journal"
    with journal.open(made) as store:
        store.journal("pages").put_many([journal.Put(f"k{n}", n, priority=n) for n in range(10)])
    return made


def names(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


def cut_short(out: Path) -> set[str]:
    """As after a crash between the manifest and the rename; the files that are there."""
    (out / "full").rename(out / ".full.exporting")
    return {file for file in names(out / ".full.exporting") if file.startswith("part-")}


def feeds(path: Path) -> list[tuple[str, journal.Cursor]]:
    with journal.open(path) as store:
        return [(feed.name, feed.position) for feed in store.journal("pages").feeds()]


def test_one_that_only_lacked_its_name_is_finished(spark: SparkSession, path: Path, out: Path) -> None:
    """Nothing is written again, when the same is asked for and the journal is as it was; the hold moves on as after any other."""
    done = spark_export.export(path, "pages", out / "full", read=ONLY_KEYS, hold="nightly", spark=spark)
    files = cut_short(out)
    with journal.open(path) as store:
        store.journal("pages").mark_feed("nightly", journal.Cursor(1, 2))  # where the export before it had left it
    again = spark_export.export(path, "pages", out / "full", read=ONLY_KEYS, hold="nightly", spark=spark)
    assert again == done
    assert names(out) == {"full"} and files <= names(out / "full")
    assert feeds(path) == [("nightly", done.cursor)]
    cut_short(out)
    assert spark_export.export(path, "pages", out / "full", read=ONLY_KEYS, spark=spark) == done
    assert files <= names(out / "full")
    cut_short(out)
    other = spark_export.export(path, "pages", out / "full", read=ONLY_KEYS, hold="weekly", spark=spark)
    assert other == done and dict(feeds(path))["weekly"] == done.cursor


@pytest.mark.parametrize(
    "asked",
    [
        {"read": {"priority": "0-2"}, "partition_by": "priority"},
        pytest.param({"read": {"columns": "key"}}, marks=pytest.mark.slow),
        pytest.param({"read": {"decode": "msgpack"}}, marks=pytest.mark.slow),
        pytest.param({"options": {"compression": "none"}}, marks=pytest.mark.slow),
        {"format": "json"},
        pytest.param({"since": "001-0001--1"}, marks=pytest.mark.slow),
    ],
    ids=["filter", "columns", "decode", "options", "format", "since"],
)
def test_another_one_is_not_taken_for_it(spark: SparkSession, path: Path, out: Path, asked: dict[str, Any]) -> None:
    """Whatever differs: filters, columns, how data is written, partitions, format and its options."""
    done = spark_export.export(path, "pages", out / "full", spark=spark)
    files = cut_short(out)
    found = spark_export.export(path, "pages", out / "full", spark=spark, **asked)
    assert found.request != done.request
    assert names(out) == {"full"} and not files & names(out / "full")
    if "partition_by" in asked:
        assert (found.rows, found.filters, found.partition_by) == (3, {"priority": "0-2"}, ("priority",))
        assert {name for name in names(out / "full") if "=" in name} == {"priority=0", "priority=1", "priority=2"}


def test_a_journal_that_has_changed_is_exported_as_it_is_now(spark: SparkSession, path: Path, out: Path) -> None:
    """The same is asked for, and the answer would be another one."""
    spark_export.export(path, "pages", out / "full", read=ONLY_KEYS, spark=spark)
    files = cut_short(out)
    with journal.open(path) as store:
        store.journal("pages").put("new", 1)
    found = spark_export.export(path, "pages", out / "full", read=ONLY_KEYS, spark=spark)
    assert found.rows == 11 and not files & names(out / "full")


def test_what_is_available_is_looked_at_again(spark: SparkSession, path: Path, out: Path) -> None:
    """Entries fall due and leases end without a change of the journal."""
    asked = {"status": "available", "columns": "key"}
    spark_export.export(path, "pages", out / "full", read=asked, spark=spark)
    files = cut_short(out)
    spark_export.export(path, "pages", out / "full", read=asked, spark=spark)
    assert not files & names(out / "full")


def test_a_relative_path_names_the_store_of_now(
    spark: SparkSession, path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From another directory it is another store, however alike it is."""
    monkeypatch.chdir(path.parent)
    spark_export.export(path.name, "pages", out / "full", read=ONLY_KEYS, spark=spark)
    files = cut_short(out)
    (path.parent / "other").mkdir()
    monkeypatch.chdir("other")
    with journal.open(path.name) as store:
        store.journal("pages").put_many([journal.Put(f"o{n}", n) for n in range(10)])
    spark_export.export(path.name, "pages", out / "full", read=ONLY_KEYS, spark=spark)
    assert not files & names(out / "full")
    assert {row.key for row in spark.read.parquet(str(out / "full")).collect()} == {f"o{n}" for n in range(10)}


def test_an_export_that_fails_holds_nothing(
    spark: SparkSession, path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A feed consumer that it has made goes again, also when only the name was missing; one that was there stays where it was."""
    for kind in ("nosuch", "noop"):
        with pytest.raises(journal.StorageError, match=rf"^\[JOURNAL_TARGET_FAILED\] Spark failed at .*full: .*{kind}"):
            spark_export.export(path, "pages", out / "full", hold="nightly", format=kind, spark=spark)
        assert feeds(path) == [] and names(out) == set()
    first = spark_export.export(path, "pages", out / "full", hold="nightly", read=ONLY_KEYS, spark=spark)
    with pytest.raises(journal.StorageError, match="nosuch"):
        spark_export.export(path, "pages", out / "more", hold="nightly", format="nosuch", spark=spark)
    assert feeds(path) == [("nightly", first.cursor)]

    def refused(self: LocalTarget) -> None:
        raise OSError("no")

    monkeypatch.setattr(LocalTarget, "finish", refused)
    with pytest.raises(OSError, match="no"):
        spark_export.export(path, "pages", out / "last", hold="weekly", read=ONLY_KEYS, spark=spark)
    assert feeds(path) == [("nightly", first.cursor)]


def test_a_manifest_is_read_without_spark(
    spark: SparkSession, path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file on this machine needs no Java."""
    done = spark_export.export(path, "pages", out / "full", read=ONLY_KEYS, spark=spark)
    monkeypatch.setattr(sys.modules["spark_export.api.export"], "session", None)
    assert spark_export.manifest_of(out / "full") == done
    assert spark_export.manifest_of(os.fspath(out / "full")) == done


@pytest.mark.parametrize("more", [3, 30])
def test_since_an_export_of_a_journal_that_was_dropped(spark: SparkSession, path: Path, out: Path, more: int) -> None:
    """One that was declared again under the name is another journal: its changes do not tell which of the old keys are gone."""
    full = spark_export.export(path, "pages", out / "full", hold="nightly", spark=spark)
    with journal.open(path) as store:
        store.drop("pages")
        pages = store.journal("pages")
        pages.feed(consumer="nightly", start="BEGIN", live=False).close()
        pages.put_many([journal.Put(f"new-{n}", n) for n in range(more)])
    with pytest.raises(
        journal.CursorUnavailable, match=r"^\[JOURNAL_CURSOR_UNAVAILABLE\].*001-0002--1.*Make a full export"
    ):
        spark_export.export(path, "pages", out / "next", since=full, hold="nightly", spark=spark)
    assert names(out) == {"full"}
    again = spark_export.export(path, "pages", out / "again", hold="nightly", read=ONLY_KEYS, spark=spark)
    assert (again.rows, again.cursor.order) == (more, 2)


def test_since_an_export_of_a_merged_journal_that_was_dropped(spark: SparkSession, tmp_path: Path, out: Path) -> None:
    """As long as the log that it shares is there, it has the end of the old entries, too."""
    path = tmp_path / "merged.journal"
    with journal.open(path) as store:
        store.merged(compact=True)
        store.journal("pages", merged=True).put_many([journal.Put(f"k{n}", n) for n in range(3)])
    full = spark_export.export(path, "pages", out / "full", spark=spark)
    with journal.open(path) as store:
        store.drop("pages")
        store.journal("pages", merged=True).put_many([journal.Put("k0", "new"), journal.Put("other", 1)])
    then = spark_export.export(path, "pages", out / "next", since=full, spark=spark)
    found = {row.key: row.is_deleted for row in spark.read.parquet(str(out / "next")).collect()}
    assert found == {"k0": False, "k1": True, "k2": True, "other": False} and then.deleted == 2


def test_what_is_available_after_a_lease_has_ended(spark: SparkSession, path: Path, out: Path) -> None:
    """The store had no owner since, so no process took it back: the entry is due all the same."""
    with journal.open(path, clock=journal.testing.ManualClock(1_000)) as store:
        pages = store.journal("short")
        pages.put_many([journal.Put("a", 1), journal.Put("b", 2)])
        assert pages.claim(consumer="c", lease="100ms") is not None  # long over, by the clock of today
    reader = spark.read.format("journal").option("journal", "short").option("status", "available")
    assert {(row.key, row.status, row.consumer) for row in reader.load(str(path)).collect()} == {
        ("a", "W", None),
        ("b", "W", None),
    }
    with journal.open(path) as store:
        assert store.journal("short").count(status="available") == 2


@pytest.fixture
def heavy(tmp_path: Path) -> Path:
    """A journal with a buried entry, and one behind an entry that is being processed."""
    made = tmp_path / "heavy.journal"
    with journal.open(made) as store:
        pages = store.journal("pages")
        pages.put("buried", 1)
        lease = pages.claim()
        assert lease is not None
        lease.bury("unreadable")
        pages.put("busy", "old")
        assert pages.claim(lease="1h") is not None
        assert pages.put("busy", "new").outcome == "queued"
    return made


def test_what_an_export_does_not_have_is_told(
    spark: SparkSession, heavy: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Buried entries and successors are counted, and a program that exports all of a journal is warned: a drop would lose them."""
    with pytest.warns(
        UserWarning, match=r"^\[JOURNAL_LEFT_OUT\] the journal 'pages' has 1 buried entries, and 1 that wait"
    ):
        made = spark_export.export(heavy, "pages", out / "full", hold="h", spark=spark)
    assert (made.rows, made.buried, made.successors) == (1, 1, 1)
    assert spark_export.manifest_of(out / "full") == made
    spark_export.export(heavy, "pages", out / "next", since=made, spark=spark)  # without a warning: it is a part anyway
    assert main(["export", str(heavy), "pages", str(out / "again"), "--columns", "key"]) == 0
    assert "journal: [JOURNAL_LEFT_OUT] the journal 'pages' has 1 buried entries" in capsys.readouterr().err
    with journal.open(heavy) as store, store.serve(), pytest.warns(UserWarning, match="LEFT_OUT"):
        spark_export.export(
            str(heavy / "SOCKET").replace("/", "unix:/", 1), "pages", out / "far", read=ONLY_KEYS, spark=spark
        )
