"""Files of a format of Spark's: the contract, what readers see, and the names that are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from journal.errors import Invalid
from spark_export.pipelines.contract import PipelineSink
from spark_export.pipelines.message import table_of
from spark_export.sinks.registry import make_sink
from spark_export.sinks.testing import COLUMNS, BatchOf, SinkContract, people


def rows(spark: SparkSession, directory: Path, kind: str = "parquet") -> list[dict[str, Any]]:
    """The data in the files of a namespace, as Python has it; instants have their zone."""
    if not list(directory.glob("batch_id=*")):
        return []
    found = spark.read.format(kind).load(str(directory)).select(*COLUMNS).toArrow()
    return [row | {"raw": None if row["raw"] is None else bytes(row["raw"])} for row in found.to_pylist()]


class TestParquet(SinkContract):
    """Parquet; small batches are Arrow's, large ones Spark's."""

    kind = "parquet"

    def make_sink(self, tmp_path: Path) -> PipelineSink:
        return make_sink(self.kind, {"path": str(tmp_path / "lake")})

    def read_back(self, tmp_path: Path, spark: SparkSession) -> list[dict[str, Any]]:
        return rows(spark, tmp_path / "lake" / "public.people", self.kind)


@pytest.fixture
def sink(tmp_path: Path, spark: SparkSession) -> Callable[..., PipelineSink]:
    """Makes a sink that is begun."""

    def made(kind: str = "parquet", **keywords: Any) -> PipelineSink:
        new = make_sink(kind, {"path": str(tmp_path / "lake"), **keywords})
        new.start(spark, "p", "s")
        new.resume(-1)
        return new

    return made


def test_files_have_op_timestamp_and_id_and_columns_that_come_later(
    sink: Callable[..., PipelineSink], tmp_path: Path, spark: SparkSession
) -> None:
    """One read gives all batches of a namespace, with the columns of each; a delete has its key's columns alone."""
    made = sink()
    made.write(BatchOf([table_of("a", [{"k": 1, "x": "one"}], {"k": pa.int64(), "x": pa.string()}, timestamps=-5)]))
    changed = table_of("a", [{"k": 1, "y": True}], {"k": pa.int64(), "y": pa.bool_()}, ops="update", first=1)
    gone = table_of("a", [{"k": 1}], {"k": pa.int64()}, ops="delete", first=2)
    made.write(BatchOf([changed, gone], spark=spark, is_small=False))
    made.write(BatchOf([table_of("_b/c", [{"k": 7}], {"k": pa.int64()}, first=3)]))
    found = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "lake" / "a")).orderBy("_id")
    named = [(row["k"], row["x"], row["y"], row["_op"], row["_timestamp"], row["_id"]) for row in found.collect()]
    assert named == [
        (1, "one", None, "insert", -5, 0),
        (1, None, True, "update", 0, 1),
        (1, None, None, "delete", 0, 2),
    ]
    assert spark.read.parquet(str(tmp_path / "lake" / "%5Fb%2Fc")).count() == 1


def test_a_batch_that_goes_past_the_position_is_removed_and_so_is_what_is_hidden(
    sink: Callable[..., PipelineSink], tmp_path: Path
) -> None:
    """Also one that begins before the position; others stay."""
    made = sink()
    made.write(BatchOf([people(0, 1)]))
    made.write(BatchOf([people(2, 5)]))
    namespace = tmp_path / "lake" / "public.people"
    (namespace / ".batch_id=x").mkdir()
    (namespace / "notes").mkdir()
    assert made.resume(3) == 3
    assert sorted(path.name for path in namespace.iterdir()) == [f"batch_id={0:020}-{1:020}", "notes"]


@pytest.mark.parametrize("name", ["_op", "_ID", "batch_id"])
@pytest.mark.parametrize("is_small", [True, False])
def test_a_column_with_a_name_of_the_files_is_refused(
    sink: Callable[..., PipelineSink], spark: SparkSession, name: str, is_small: bool
) -> None:
    """It would be seen in place of ours, or not at all."""
    table = table_of("a", [{name: 1}], {name: pa.int64()})
    with pytest.raises(Invalid, match="rename"):
        sink().write(BatchOf([table], spark=spark, is_small=is_small))


def test_options_and_partitions_reach_spark(
    sink: Callable[..., PipelineSink], tmp_path: Path, spark: SparkSession
) -> None:
    """CSV with a header, a directory for each value."""
    made = sink("csv", partition=["k"], options={"header": True})
    made.write(
        BatchOf(
            [table_of("a", [{"k": 1, "x": "one"}, {"k": 2, "x": "two"}], {"k": pa.int64(), "x": pa.string()})],
            spark=spark,
        )
    )
    batch = tmp_path / "lake" / "a" / f"batch_id={0:020}-{1:020}"
    assert {path.name for path in batch.iterdir() if path.is_dir()} == {"k=1", "k=2"}
    assert [
        row["x"] for row in spark.read.option("header", True).csv(str(tmp_path / "lake" / "a")).orderBy("k").collect()
    ] == ["one", "two"]


def test_check_refuses_what_cannot_be_written(tmp_path: Path) -> None:
    """A file in the way, and a path of another machine."""
    (tmp_path / "file").touch()
    with pytest.raises(Invalid, match="is a file"):
        make_sink("parquet", {"path": str(tmp_path / "file" / "lake")}).check()
    with pytest.raises(Invalid, match="mounted"):
        make_sink("parquet", {"path": "s3a://bucket/lake"})
