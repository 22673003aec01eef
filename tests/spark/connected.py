"""A program on Spark Connect, which cannot share a process with a classic session: `session`, reading, `export`, `load`, a table."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import journal
import spark_export


def run(top: Path) -> None:
    """All of it, with a server that Connect starts in this process."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false")
    own: Any = (
        builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    )
    assert "connect" in type(own).__module__
    assert spark_export.session() is own
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(spark_export.session()))
    thread.start()
    thread.join()
    assert found == [own]

    store = top / "work.journal"
    reader = own.read.format("journal").option("journal", "pages")
    assert reader.load(str(store)).count() == 3
    first = spark_export.export(store, "pages", top / "full", hold="nightly", progress=True)
    assert (first.rows, spark_export.manifest_of(top / "full")) == (3, first)
    with journal.open(store) as opened:
        opened.journal("pages").delete("a")
    assert spark_export.export(store, "pages", top / "next", since=top / "full", hold="nightly").deleted == 1
    with pytest.raises(journal.Invalid, match=r"\[JOURNAL_TARGET_INVALID\].*Spark Connect"):
        spark_export.export(store, "pages", "hdfs://127.0.0.1:1/exports/full")
    with spark_export.snapshot(store, "pages") as shot:
        assert reader.option("snapshot", shot.name).load(str(store)).count() == 2
    assert spark_export.load(own.read.parquet(str(top / "full")), store, "again").inserted == 3
    own.stop()


if __name__ == "__main__":
    run(Path(sys.argv[1]))
