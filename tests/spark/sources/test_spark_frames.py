"""Anything that Spark reads: copied, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from journal.errors import Invalid, JournalError
from spark_export.pipelines.testing import Rows, SourceContract
from spark_export.sources.spark_frames import SparkSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TestSparkContract(SourceContract):
    """The published suite, as far as it is about copies."""

    modes = ("copy",)

    @pytest.fixture(autouse=True)
    def place(self, spark: SparkSession, tmp_path: Path) -> None:
        """A file of ORC."""
        self.path = tmp_path / "numbers"
        spark.range(5).selectExpr("id", "array(id, NULL) AS pair").write.format("orc").save(str(self.path))

    def make_source(self) -> SparkSource:
        """As after a restart."""
        return SparkSource("orc", "numbers", {"path": self.path}, key=["id"])

    def rows(self) -> Rows:
        """What was written."""
        return {"numbers": [{"id": n, "pair": [n, None]} for n in range(5)]}

    def fingerprint(self) -> Any:
        """Names and times."""
        return sorted((path.name, path.stat().st_mtime_ns) for path in self.path.iterdir())


@pytest.mark.parametrize("mode", ["sync", "copy+sync"])
def test_it_cannot_follow(spark: SparkSession, mode: str) -> None:
    """The error says what can."""
    with pytest.raises(Invalid, match=r"can only be copied: say mode = 'copy'"):
        SparkSource("range", "x").start(spark, {}, mode)


def test_what_is_wrong_is_said(spark: SparkSession, tmp_path: Path) -> None:
    """A format that is not there, a path that is not, a key that is no column, an empty name."""
    with pytest.raises(JournalError, match="the source 'x'"):
        SparkSource("no_such_format", "x").check()
    with pytest.raises(JournalError, match="the source 'x'"):
        SparkSource("parquet", "x", {"path": tmp_path / "none"}).check()
    with pytest.raises(Invalid, match=r"no column uid for the key: it has value"):
        SparkSource("text", "x", {"path": __file__}, key="uid").check()
    with pytest.raises(Invalid, match="namespace is empty"):
        SparkSource("text", "")
