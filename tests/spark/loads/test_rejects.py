"""The list of the rows that a load has left out: told once, whole, and never lost to a repetition."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import journal

pytest.importorskip("pyarrow", reason="pip install 'journal[spark]'")

import pyarrow as pa

from spark_export.loads.plan import commit, planned, stage
from spark_export.loads.rejects import RejectList
from spark_export.loads.result import RejectedRow
from spark_export.options.load import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = pa.record_batch({"key": ["a", "b", "c"], "priority": [1, 999, 2]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a journal, without an owner."""
    with journal.open(tmp_path / "work.journal") as store:
        store.journal("pages")
    return tmp_path / "work.journal"


def given(path: Path, rejects: Path) -> WriteOptions:
    return WriteOptions.parse({"path": str(path), "journal": "pages", "on_reject": "list", "rejects": str(rejects)})


def keys(path: Path) -> set[Any]:
    with journal.open(path) as store:
        assert store.check() == []
        found = {entry.key for entry in store.journal("pages").scan()}
    assert [child.name for child in path.parent.iterdir() if ".load-" in child.name] == []
    return found


def listed(file: Path) -> list[Any]:
    return [json.loads(line)["key"] for line in file.read_text().splitlines()]


def test_a_load_that_was_made_before_leaves_the_list_alone(path: Path, tmp_path: Path) -> None:
    """The rows that were left out the first time are in no other place."""
    for is_repeated in (False, True):
        plan = planned(given(path, tmp_path / "rejects.jsonl"), BATCH.schema)
        outcome = commit(plan, [stage([BATCH], plan, 0)], ("nightly", 1))
        assert outcome.is_repeated is is_repeated
        assert listed(tmp_path / "rejects.jsonl") == ["b"]
    assert keys(path) == {"a", "c"}
    assert sorted(os.listdir(tmp_path)) == ["rejects.jsonl", "work.journal"]


@pytest.mark.parametrize("name", ["none/rejects.jsonl", "work.journal"])
def test_a_list_that_cannot_be_written_is_told_before_anything_is_loaded(path: Path, tmp_path: Path, name: str) -> None:
    """Else the rows are loaded, and a repetition would not list them any more."""
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(journal.Invalid, match=r"^\[JOURNAL_OPTION_INVALID\] rejects is "):
        planned(given(path, tmp_path / name), BATCH.schema)
    (tmp_path / "there").mkdir()
    plan = planned(given(path, tmp_path / "there" / "rejects.jsonl"), BATCH.schema)
    part = stage([BATCH], plan, 0)
    (tmp_path / "there").rmdir()
    with pytest.raises(journal.Invalid, match=r"^\[JOURNAL_OPTION_INVALID\] rejects is .*Nothing was changed"):
        commit(plan, [part], None)
    assert keys(path) == set() and sorted(os.listdir(tmp_path)) == before


def test_a_list_is_whole_or_not_there(tmp_path: Path) -> None:
    """What stood there stays until then; keys that are no texts are written, too."""
    (tmp_path / "rejects.jsonl").write_text("before")
    with RejectList(str(tmp_path / "rejects.jsonl")):
        assert (tmp_path / "rejects.jsonl").read_text() == "before"
    assert os.listdir(tmp_path) == ["rejects.jsonl"] and (tmp_path / "rejects.jsonl").read_text() == "before"
    with RejectList(str(tmp_path / "rejects.jsonl")) as found:
        found.keep([RejectedRow(0, 1, "\ud800", "no text"), RejectedRow(0, 2, b"\xff", "bytes")])
    assert listed(tmp_path / "rejects.jsonl") == ["\ud800", {"$bytes": "/w=="}]
    assert os.listdir(tmp_path) == ["rejects.jsonl"]


def test_a_path_is_meant_as_the_program_means_it(
    spark: SparkSession, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative to its own working directory, which Spark's workers do not share."""
    from spark_export.api.load import load

    (tmp_path / "lists").mkdir()
    monkeypatch.chdir(tmp_path)
    df = spark.createDataFrame([("a", 1), ("b", 999)], "key string, priority int")
    assert load(df, path, "pages", on_reject="list", rejects="lists/rejects.jsonl").inserted == 1
    assert listed(tmp_path / "lists" / "rejects.jsonl") == ["b"]


def test_each_batch_of_a_stream_has_its_list(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """One batch does not write over the list of another; one without such rows has none."""
    with journal.open(path) as store:
        store.journal("source", compact=True).put_many([journal.Put(f"k{n}", n) for n in range(6)])
    source = spark.readStream.format("journal").option("journal", "source").option("changes", True)
    rows = source.option("maxRowsPerTrigger", 2).load(str(path))
    rows = rows.selectExpr("key", "if(offset % 2 = 0 and offset < 4, 999, 1) as priority").coalesce(1)
    sink = rows.writeStream.format("journal").option("journal", "pages").option("on_reject", "list")
    sink = sink.option("rejects", str(tmp_path / "rejects.jsonl")).option("checkpointLocation", str(tmp_path / "c"))
    query = sink.trigger(availableNow=True).start(str(path))
    query.awaitTermination(600)
    found = sorted(tmp_path.glob("rejects*"))
    assert [file.name for file in found] == [f"rejects-{query.id}-{batch:06d}.jsonl" for batch in (0, 1)]
    assert [listed(file) for file in found] == [["k0"], ["k2"]]
    assert keys(path) == {"k1", "k3", "k4", "k5"}
