"""
A program with a session that the user made: `python -m tests.spark.own MASTER TOP ADDRESS`, started by a test. Ours was never there.

Its settings, and what its Java logs, stay as they are whatever is exported and loaded with it, and by whom.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import spark_export
from journal.cli import main
from spark_export.api.java import java_home
from tests.spark.listening import family, is_loopback, listening
from tests.spark.setting import CONF

DATE = 1_700_000_000_123


def run(master: str, top: Path, address: str) -> None:
    """All of it; an AssertionError says what does not hold."""
    if (home := java_home()) is not None:
        os.environ["JAVA_HOME"] = home
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("mine")
    for name, value in {
        **CONF,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.sql.session.timeZone": "Europe/Berlin",
        "spark.sql.shuffle.partitions": "3",
        "spark.local.dir": str(top / "local"),
    }.items():
        builder = builder.config(name, value)
    own = builder.getOrCreate()
    own.sparkContext.setLogLevel("FATAL")
    logs = own.sparkContext._jvm.org.apache.logging.log4j.LogManager  # type: ignore[union-attr]

    def settings() -> tuple[dict[str, Any], str]:
        return dict(own.conf.getAll), str(logs.getRootLogger().getLevel())

    before = settings()
    store = top / "work.journal"
    made = spark_export.export(store, "pages", top / "one")
    assert settings() == before
    assert spark_export.manifest_of(top / "one") == made
    assert main(["export", str(store), "pages", str(top / "two")]) == 0
    assert settings() == before
    assert spark_export.session(app="other", master="local[7]") is own
    assert settings() == before
    thread = threading.Thread(target=lambda: spark_export.export(store, "pages", top / "three"))
    thread.start()
    thread.join()
    assert (top / "three").exists() and settings() == before

    for place in (str(store), address):
        reader = own.read.format("journal").option("journal", "pages").option("partitions", 4)
        rows = reader.load(place).collect()
        assert [(row.key, int(row.process_date.timestamp() * 1000)) for row in rows] == [("a", DATE)], place
    spark_export.load(own.read.parquet(str(top / "one")), address, "again")
    assert main(["load", address, "more", str(top / "one")]) == 0

    executors = own.sparkContext.parallelize(range(8), 8).map(lambda _: os.getppid()).collect()
    assert len(set(executors)) == 2  # each has a Python of its own, whose children are the workers
    assert [where for where in listening(family()) if not is_loopback(where)] == []

    spark_export.session(spark__sql__shuffle__partitions=5)
    assert own.conf.get("spark.sql.shuffle.partitions") == "5"
    assert own.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
    own.stop()


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
