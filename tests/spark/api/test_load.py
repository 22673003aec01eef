"""Bulk loads: one change, or none; every row accounted for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import journal
from journal.errors import StoreFull
from journal.net.wire.tokens import parse_tokens

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'journal[spark]'")

import spark_export
from spark_export.api.load import load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOW = 1_700_000_000_000
SECRET = "0123456789abcdef" * 4
ROWS = [(f"page-{n}", n % 3, NOW + n, f"/page/{n}") for n in range(100)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a journal, without an owner."""
    with journal.open(tmp_path / "work.journal") as store:
        store.journal("pages").put("page-1", {"uri": "/before"}, priority=9, process_date=NOW, insertion_date=NOW - 9)
    return tmp_path / "work.journal"


def frame(
    spark: SparkSession, rows: Any = None, columns: str = "key string, priority int, process_date long, uri string"
) -> DataFrame:
    return spark.createDataFrame(ROWS if rows is None else rows, columns)


def write(df: DataFrame, path: Path | str, mode: str = "append", **options: str) -> None:
    writer = df.write.format("journal").mode(mode).option("journal", "pages")
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save(str(path))


def entries(path: Path) -> dict[Any, journal.Entry]:
    """What the journal holds, with every index in order and nothing left beside the store."""
    with journal.open(path) as store:
        assert store.check() == []
        found = {entry.key: entry for entry in store.journal("pages").scan()}
    assert sorted(child.name for child in path.parent.iterdir() if "load" in child.name) == []
    return found


@pytest.fixture
def unchanged(path: Path) -> Iterator[None]:
    """The journal after the test is the one before it, and no part is left."""
    before = entries(path)
    yield
    assert entries(path) == before


def test_all_rows_are_one_change(spark: SparkSession, path: Path) -> None:
    """Columns are what their names say, others are fields of the data; a key that is there is merged."""
    write(frame(spark).repartition(3), path)
    found = entries(path)
    assert len(found) == 100
    assert (found["page-7"].data, found["page-7"].priority, found["page-7"].process_date) == (
        {"uri": "/page/7"},
        1,
        NOW + 7,
    )
    assert (found["page-1"].data, found["page-1"].priority) == ({"uri": "/page/1"}, 1)
    assert found["page-1"].insertion_date == NOW - 9, "merged, by the rules of a put"


def test_load_tells_what_became_of_the_rows(spark: SparkSession, path: Path) -> None:
    """Through a store that this program has open, too."""
    with journal.open(path) as store:
        result = load(frame(spark), store, "pages", on_conflict="skip")
        assert (result.inserted, result.skipped, result.rejected, result.is_repeated) == (99, 1, [], False)
        assert result.cursor == store.journal("pages").durable_cursor
    assert entries(path)["page-1"].data == {"uri": "/before"}


def test_columns_can_have_other_names(spark: SparkSession, path: Path) -> None:
    """Options name them; a delay is for rows without a date."""
    write(frame(spark, [("a", "one")], "id string, text string"), path, key="id", delay="1d", on_conflict="error")
    found = entries(path)["a"]
    assert found.data == {"text": "one"} and found.process_date - found.insertion_date >= 86_000_000


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("options", "columns", "says"),
    [
        ({"on_conflicts": "skip"}, "key string", "[JOURNAL_OPTION_UNKNOWN]"),
        ({"on_conflict": "perhaps"}, "key string", "[JOURNAL_OPTION_INVALID]"),
        ({"txn_app_id": "x"}, "key string", "[JOURNAL_OPTION_MISSING]"),
        ({"rejects": "x"}, "key string", "[JOURNAL_OPTION_INVALID]"),
        ({}, "id string", "[JOURNAL_COLUMN_UNKNOWN]"),
        ({}, "key int", "[JOURNAL_COLUMN_TYPE]"),
        ({"journal": "sites"}, "key string", "[JOURNAL_NOT_FOUND]"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_before_a_row_is_read(
    spark: SparkSession, path: Path, options: Any, columns: str, says: str
) -> None:
    """With a code that stays the same."""
    from spark_export.source.load_writer import LoadWriter

    given = {"path": str(path), "journal": "pages", **options}
    with pytest.raises(journal.JournalError) as found:
        LoadWriter(given, frame(spark, [], columns).schema, False)
    assert str(found.value).startswith(says)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("once", [("x", -1), ("x", 1 << 63), ("x", True), ("", 1), ("x" * 999, 1), "x", ("x",), (1, 1)])
def test_a_wrong_once_is_told_before_a_task_runs(spark: SparkSession, path: Path, once: Any) -> None:
    """It is an argument, and no row."""
    bad = frame(spark).selectExpr("key", "raise_error('a task ran') as n")
    with pytest.raises(journal.Invalid, match=r"^\[JOURNAL_OPTION_INVALID\] once is "):
        load(bad, path, "pages", once=once)


@pytest.mark.usefixtures("unchanged")
def test_no_room_for_a_part_has_a_code(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task that has none says so, and leaves no part."""
    import errno
    import os

    import pyarrow as pa

    from spark_export.loads.plan import planned, stage
    from spark_export.options.load import WriteOptions

    batch = pa.record_batch({"key": ["x", "y"]})
    plan = planned(WriteOptions.parse({"path": str(path), "journal": "pages"}), batch.schema)

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("journal.loads.os.write", full)
        with pytest.raises(StoreFull, match=r"^\[JOURNAL_STORAGE\] "):
            stage([batch], plan, 0)
    assert os.listdir(plan.staging.directory or "") == []
    plan.staging.remove()


@pytest.mark.usefixtures("unchanged")
def test_overwrite_is_refused(spark: SparkSession, path: Path) -> None:
    """Work that waits is not thrown away by a mode of writing."""
    with pytest.raises(Exception, match=r"\[JOURNAL_MODE\].*append"):
        write(frame(spark), path, mode="overwrite")


@pytest.mark.usefixtures("unchanged")
def test_a_task_that_fails_leaves_nothing(spark: SparkSession, path: Path) -> None:
    """One of several: the others had written their parts."""
    from pyspark.sql.functions import col, lit, raise_error, when

    df = frame(spark).repartition(4)
    df = df.withColumn("uri", when(col("key") == "page-42", raise_error(lit("broken row"))).otherwise(col("uri")))
    with pytest.raises(Exception, match="broken row"):
        write(df, path)
    with pytest.raises(Exception, match="broken row"):
        load(df, path, "pages")


@pytest.mark.usefixtures("unchanged")
def test_a_commit_that_is_refused_leaves_nothing(spark: SparkSession, path: Path) -> None:
    """A key that is there, and must not be."""
    with pytest.raises(Exception, match=r"\[JOURNAL_KEY_EXISTS\].*page-1"):
        write(frame(spark), path, on_conflict="error")


@pytest.mark.usefixtures("unchanged")
def test_a_transaction_that_fails_leaves_nothing(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No room for the record: nothing of it is there."""
    from journal.engine.log.writer import LogWriter

    def full(*_: Any, **__: Any) -> Any:
        raise StoreFull("no room on the disk")

    with journal.open(path) as store, monkeypatch.context() as patched:
        patched.setattr(LogWriter, "append", full)
        with pytest.raises(StoreFull, match="no room"):
            load(frame(spark), store, "pages")


@pytest.mark.usefixtures("unchanged")
def test_rows_that_cannot_be_loaded_fail_the_load(spark: SparkSession, path: Path) -> None:
    """By default; found by a task or by the journal."""
    with pytest.raises(journal.Invalid, match=r"\[JOURNAL_ROWS_REJECTED\].*priority"):
        load(frame(spark, [*ROWS, ("x", 256, NOW, "")]), path, "pages")
    with pytest.raises(Exception, match=r"\[JOURNAL_ROWS_REJECTED\].*no JSON"):
        load(frame(spark, [("x", "{")], "key string, data string"), path, "pages")


def test_rows_that_cannot_be_loaded_are_listed(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """When it is asked for: each with its place, its key and the reason, in the result and in a file; the others are loaded."""
    rows = [("a", 1, "1"), ("b", 1, "{"), ("c", 256, "3"), ("d", 4, "4"), (None, 1, "5")]
    df = frame(spark, rows, "key string, priority int, data string").coalesce(1)
    result = load(df, path, "pages", on_reject="list", rejects=tmp_path / "rejects.jsonl")
    assert result.inserted == 2 and {"a", "d"} < entries(path).keys()
    assert [(one.row, one.key) for one in result.rejected] == [(1, "b"), (2, "c"), (4, None)]
    assert "no JSON" in result.rejected[0].reason and "priority" in result.rejected[1].reason
    listed = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    assert [(one["row"], one["key"], one["reason"]) for one in listed] == [
        (one.row, one.key, one.reason) for one in result.rejected
    ]


def test_a_load_that_was_made_is_not_made_again(spark: SparkSession, path: Path) -> None:
    """By any program, and with any rows: its number is kept with the rows."""
    write(frame(spark), path, txnAppId="nightly", txnVersion="7")
    before = entries(path)
    write(frame(spark, [("late", 0, NOW, "")]), path, txnAppId="nightly", txnVersion="7")
    assert entries(path) == before
    result = load(frame(spark, [("late", 0, NOW, "")]), path, "pages", once=("nightly", 8))
    assert result.inserted == 1 and not result.is_repeated
    assert load(frame(spark), path, "pages", once=("nightly", 8)).is_repeated


def test_attempts_that_do_not_count_are_in_no_load(path: Path) -> None:
    """A task that was tried twice, or ran twice at a time, has its rows once."""
    import pyarrow as pa

    from spark_export.loads.plan import commit, planned, stage
    from spark_export.options.load import WriteOptions

    batch = pa.record_batch({"key": ["x", "y"]})
    plan = planned(WriteOptions.parse({"path": str(path), "journal": "pages", "on_conflict": "error"}), batch.schema)
    lost, counts = stage([batch], plan, 0), stage([batch], plan, 0)
    assert lost.name != counts.name
    assert commit(plan, [counts], None).inserted == 2
    assert {"x", "y"} < entries(path).keys()


def test_an_empty_frame_changes_nothing(spark: SparkSession, path: Path) -> None:
    """It is no error."""
    before = entries(path)
    write(frame(spark, []), path)
    assert entries(path) == before


def test_what_nobody_knows_the_owner_of_goes_later(path: Path) -> None:
    """After a day, with another load of the same store; what is younger may be in use."""
    import os

    from spark_export.loads.staging import STALE_S, beside
    from spark_export.stores.process_owner import own

    elsewhere = "0" * 12 + "-1-1"
    old, young = (Path(beside(str(path), None, elsewhere)) for _ in range(2))
    for directory in (old, young):
        directory.mkdir()
        (directory / "part").touch()
    long_ago = (directory / "part").stat().st_mtime - STALE_S - 60
    for each in (old / "part", old):
        os.utime(each, (long_ago, long_ago))
    beside(str(path), None, own())
    assert not old.exists() and young.exists()


def test_load_is_public() -> None:
    """`spark_export.load`."""
    assert spark_export.load is load


def test_through_a_daemon(spark: SparkSession, path: Path) -> None:
    """By the store's path, while a daemon owns it, and by its address: then the tasks send their parts to it."""
    tokens = parse_tokens(f"spark {SECRET} produce pages *")
    with journal.open(path) as store, store.serve(tcp=[("127.0.0.1", 0)], tokens=tokens) as server:
        pages = store.journal("pages")
        address = next(each for each in server.addresses if each.startswith("tcp:"))
        write(frame(spark, ROWS[:10]), path, on_conflict="replace")
        assert pages.count() == 10
        write(frame(spark).repartition(3), address, on_conflict="skip", token=f"spark:{SECRET}")
        assert pages.count() == 100
        rows = [("x", 256, NOW, ""), ("y", 1, NOW, "/y")]
        result = load(frame(spark, rows), address, "pages", on_reject="list", token=f"spark:{SECRET}")
        assert result.inserted == 1 and "priority" in result.rejected[0].reason
        bad = frame(spark).selectExpr("key", "if(key = 'page-42', raise_error('broken row'), 1) as n")
        with pytest.raises(Exception, match="broken row"):
            load(bad, address, "pages", token=f"spark:{SECRET}")
        assert pages.count() == 101 and sorted(path.glob("_loads/*")) == []
        with pytest.raises(Exception, match=r"\[JOURNAL_STORE_UNREACHABLE\]"):
            load(frame(spark), address, "pages", token=f"spark:{SECRET[::-1]}")
    assert len(entries(path)) == 101


def test_a_store_of_somebody_else_is_not_written_to(spark: SparkSession, path: Path) -> None:
    """A process that has it open without a daemon is told of, with what to do."""
    with journal.open(path), pytest.raises(Exception, match=r"\[JOURNAL_STORE_LOCKED\].*serve"):
        write(frame(spark), path)
    assert len(entries(path)) == 1
