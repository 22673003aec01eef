"""Streams: changes in order, each query from its own place; batches that are put once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import journal
from journal.net.wire.tokens import parse_tokens

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'journal[spark]'")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming import StreamingQuery

NOW = 1_700_000_000_000
SECRET = "0123456789abcdef" * 4
END_S = 300
"""When a query that must end is given up."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with ten changes, without an owner."""
    with journal.open(tmp_path / "work.journal") as store:
        pages = store.journal("pages", log_old=True)
        for n in range(8):
            pages.put(f"page-{n}", {"n": n}, priority=n, process_date=NOW + n)
        pages.put(b"\xff", b"\x00")
        pages.put("page-0", {"n": None})
        store.journal("copies")
    return tmp_path / "work.journal"


def changes(spark: SparkSession, path: Path | str, **options: Any) -> DataFrame:
    reader = spark.readStream.format("journal").option("journal", "pages").option("changes", True)
    return reader.options(**options).load(str(path))


def finished(query: StreamingQuery) -> list[int]:
    """Wait for a query that takes what is there; how many rows its batches had."""
    assert query.awaitTermination(END_S), "the query did not end"
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def table(df: DataFrame, to: Path, checkpoint: Path) -> list[int]:
    """Append what there is to a table of files."""
    writer = df.writeStream.format("parquet").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    return finished(writer.start(str(to)))


def rows(spark: SparkSession, of: Path) -> list[Row]:
    return spark.read.parquet(str(of)).orderBy("order", "offset").collect()


def test_a_stream_has_every_change_once(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """In batches as large as asked; a query that comes again goes on where it was, with what has come since."""
    options = {"maxRowsPerTrigger": 4, "consumer": "table"}
    assert table(changes(spark, path, **options), tmp_path / "table", tmp_path / "checkpoint") == [4, 4, 2]
    found = rows(spark, tmp_path / "table")
    assert [row.cursor for row in found] == [str(journal.Cursor(1, n)) for n in range(10)]
    first, raw, last = found[0], found[8], found[9]
    assert (first.op, first.verb, first.key, first.data, first.old) == ("insert", "put", "page-0", '{"n":0}', None)
    assert (first.namespace, first.priority, first.process_date.timestamp()) == ("pages", 0, NOW / 1000)
    assert (raw.key, bytes(raw.key_bytes), raw.data) == (None, b"\xff", '{"$bytes":"AA=="}')
    assert (last.op, last.data, last.old) == ("update", '{"n":null}', '{"n":0}')
    with journal.open(path) as store:
        pages = store.journal("pages")
        assert [(view.name, view.position <= journal.Cursor(1, 9)) for view in pages.feeds()] == [("table", True)]
        pages.delete("page-3")
    assert table(changes(spark, path, **options), tmp_path / "table", tmp_path / "checkpoint") == [1]
    last = rows(spark, tmp_path / "table")[-1]
    assert (last.op, last.key, last.data) == ("delete", "page-3", None)
    with journal.open(path) as store:
        assert store.journal("pages").feeds()[0].position >= journal.Cursor(1, 7), "it moves on with what is committed"


def test_a_batch_reads_the_changes_between_two_cursors(spark: SparkSession, path: Path) -> None:
    """In parts; END is where the log ended when load() was called."""
    reader = spark.read.format("journal").option("journal", "pages").option("changes", True)
    df = reader.option("start", str(journal.Cursor(1, 2))).option("partitions", 3).load(str(path))
    with journal.open(path) as store:
        store.journal("pages").put("late", 1)
    found = sorted(row.offset for row in df.collect())
    assert found == list(range(3, 10)) and df.rdd.getNumPartitions() == 3


def test_what_is_gone_is_told(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """With the oldest cursor that is left; never a gap."""
    with journal.open(path) as store:
        pages = store.journal("pages")
        for entry in list(pages.scan()):
            pages.delete(entry.key)
        pages.rotate()
        pages.put("new", 1)
        store.checkpoint()
        assert pages.oldest_cursor > journal.Cursor(1, 4)
    df = changes(spark, path, start=str(journal.Cursor(1, 4)))
    writer = df.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    query = writer.start()
    with pytest.raises(Exception, match=r"\[JOURNAL_CURSOR_UNAVAILABLE\].*oldest"):
        query.awaitTermination(END_S)


@pytest.mark.parametrize("more", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_a_journal_that_was_declared_again_is_no_continuation(
    spark: SparkSession, path: Path, tmp_path: Path, more: int
) -> None:
    """Its name went on counting: a query that comes again is told so, whether the new one has more changes than the old one or fewer."""
    assert table(changes(spark, path), tmp_path / "table", tmp_path / "checkpoint") == [10]
    with journal.open(path) as store:
        store.drop("pages")
        pages = store.journal("pages", compact=True)
        for n in range(more):
            pages.put(f"new-{n}", n)
    with pytest.raises(
        Exception, match=r"\[JOURNAL_CURSOR_UNAVAILABLE\].*oldest cursor that is available is 001-0002--1"
    ):
        table(changes(spark, path), tmp_path / "table", tmp_path / "checkpoint")
    assert len(rows(spark, tmp_path / "table")) == 10
    assert sum(table(changes(spark, path), tmp_path / "anew", tmp_path / "other")) == more


@pytest.mark.slow
def test_a_merged_journal_that_was_declared_again_is_followed_over_its_end(spark: SparkSession, tmp_path: Path) -> None:
    """The log that it shares tells that the entries of the former one went: nothing is missed, and nothing mixed up."""
    path = tmp_path / "merged.journal"
    with journal.open(path) as store:
        store.merged(compact=True)
        store.journal("other", merged=True).put("other", 1)
        store.journal("pages", merged=True).put("old", 1)
    assert table(changes(spark, path), tmp_path / "table", tmp_path / "checkpoint") == [1]
    with journal.open(path) as store:
        store.drop("pages")
        store.journal("other").put("more", 1)
        store.journal("pages", merged=True).put("new", 1)
    table(changes(spark, path), tmp_path / "table", tmp_path / "checkpoint")
    found = [(row.op, row.key, row.namespace) for row in rows(spark, tmp_path / "table")]
    assert found == [("insert", "old", "pages"), ("delete", "old", "pages"), ("insert", "new", "pages")]
    with journal.open(path) as store:
        store.drop("pages")
        store.journal("pages").put("alone", 1)
    with pytest.raises(
        Exception, match=r"\[JOURNAL_CURSOR_UNAVAILABLE\].*oldest cursor that is available is 001-0002--1"
    ):
        table(changes(spark, path), tmp_path / "table", tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"changes": False}, "JOURNAL_OPTION_MISSING"),
        ({"start": "yesterday"}, "JOURNAL_OPTION_INVALID"),
        ({"consumer": ""}, "JOURNAL_OPTION_INVALID"),
        ({"startt": "END"}, "JOURNAL_OPTION_UNKNOWN"),
        ({"start": "001-0001-000000000000000003", "end": "001-0001-000000000000000002"}, "JOURNAL_OPTION_INVALID"),
        ({"start": "END", "end": "001-0001--1"}, "JOURNAL_OPTION_INVALID"),
        ({"journal": "sites"}, "JOURNAL_NOT_FOUND"),
    ],
)
def test_wrong_options_are_told_early(path: Path, options: dict[str, Any], says: str) -> None:
    """With load(), before a query begins."""
    from spark_export.source.changes_reader import changes_schema

    given = {"path": str(path), "journal": "pages", "changes": "true"} | {
        name: str(value) for name, value in options.items()
    }
    with pytest.raises(journal.JournalError) as found:
        changes_schema(given)
    assert says in str(found.value)


def copied(df: DataFrame, path: Path | str, checkpoint: Path, **options: Any) -> StreamingQuery:
    """A query that puts into the journal `copies`."""
    writer = df.writeStream.format("journal").option("path", str(path)).option("journal", "copies").options(**options)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def test_a_batch_is_put_once_whatever_crashes(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """Spark dies after the sink's commit, before it has noted it: the batch is run again, and changes nothing."""
    puts = (
        changes(spark, path, start="BEGIN")
        .where("op = 'insert'")
        .select("key", "key_bytes", "data", "priority", "process_date")
    )
    assert finished(copied(puts, path, tmp_path / "checkpoint")) == [10]
    with journal.open(path) as store:
        copies = store.journal("copies")
        assert {entry.key: entry.data for entry in copies.scan()} == {
            b"\xff": b"\0",
            **{f"page-{n}": {"n": n} for n in range(8)},
        }
        copies.done_many(copies.claim_many(100, consumer="test"))  # what came again would be seen
        end = copies.durable_cursor
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    assert finished(copied(puts, path, tmp_path / "checkpoint")) == [10], "Spark runs the batch again"
    with journal.open(path) as store:
        assert (store.journal("copies").count(), store.journal("copies").durable_cursor) == (0, end)
        assert store.check() == []
    assert [child.name for child in tmp_path.iterdir() if ".load-" in child.name] == []


def test_queries_are_independent(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """One of three fails: the others go their way, and it goes on from its own place when it is mended."""
    from pyspark.sql.functions import col, lit, raise_error, when

    good = changes(spark, path).where("key is not null").select(col("key"), col("data"))
    bad = good.withColumn("data", when(col("key") == "page-5", raise_error(lit("broken"))).otherwise(col("data")))
    prefixed = [good.withColumn("key", lit(name)) for name in ("one", "three")]
    queries = [
        copied(prefixed[0], path, tmp_path / "one"),
        copied(bad, path, tmp_path / "two"),
        copied(prefixed[1], path, tmp_path / "three"),
    ]
    with pytest.raises(Exception, match="broken"):
        queries[1].awaitTermination(END_S)
    finished(queries[0])
    finished(queries[2])
    with journal.open(path) as store:
        assert {entry.key for entry in store.journal("copies").scan()} == {"one", "three"}
    finished(copied(good, path, tmp_path / "two"))
    with journal.open(path) as store:
        assert {entry.key for entry in store.journal("copies").scan()} == {
            "one",
            "three",
            *(f"page-{n}" for n in range(8)),
        }


def test_complete_output_is_refused(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """It would throw away work that waits."""
    counts = changes(spark, path).groupBy("key").count()
    writer = (
        counts.writeStream.format("journal")
        .option("path", str(path))
        .option("journal", "copies")
        .outputMode("complete")
    )
    query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
    with pytest.raises(Exception, match=r"\[JOURNAL_MODE\]"):
        query.awaitTermination(END_S)


def test_through_a_daemon(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """From its address, in several parts, with a consumer that it holds the log for; and to it, once."""
    tokens = parse_tokens(f"spark {SECRET} produce,consume * *")
    with journal.open(path) as store, store.serve(tcp=[("127.0.0.1", 0)], tokens=tokens) as server:
        address = next(each for each in server.addresses if each.startswith("tcp:"))
        told = {"token": f"spark:{SECRET}", "consumer": "copier", "partitions": 3}
        puts = changes(spark, address, **told).where("op = 'insert'").select("key", "key_bytes", "data")
        assert finished(copied(puts, address, tmp_path / "c", token=f"spark:{SECRET}")) == [10]
        assert store.journal("copies").count() == 9
        assert [view.name for view in store.journal("pages").feeds()] == ["copier"]
        assert sorted(path.glob("_loads/*")) == []
