"""
The jobs of a cluster, as a program: `python -m tests.spark.cluster MASTER STORE ADDRESS OUT`. Prints what it found as JSON.

A process has one Spark context, and the tests' own session has it; so a cluster's driver is a process of its own.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import spark_export
from tests.spark.listening import family, is_loopback, listening

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(master: str, store: str, address: str, out: str) -> dict[str, object]:
    """Read from the files and through the daemon, export, load and stream; on which executors."""
    spark = spark_export.session(
        app="cluster",
        master=master,
        conf={"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": 2, "spark.local.dir": f"{out}/local"},
    )
    try:
        reader = spark.read.format("journal").option("journal", "pages").option("partitions", 4)
        found: dict[str, object] = {}
        for name, path in (("files", store), ("daemon", address)):
            if path:
                frame = reader.load(path).select("key", "data")
                found[name] = sorted((row.key, row.data) for row in frame.collect())
        found["elsewhere"] = [address for address in listening(family()) if not is_loopback(address)]
        found["executors"] = len(set(spark.sparkContext.parallelize(range(8), 8).map(_executor).collect()))
        done = spark_export.export(store, "pages", f"{out}/full", spark=spark)
        found["exported"] = done.rows
        found["read back"] = spark.read.parquet(f"{out}/full").count()
        if address:
            found["loaded"] = spark_export.load(
                spark.read.parquet(f"{out}/full").repartition(4), address, "copies"
            ).inserted
            found["streamed"] = _stream(spark, address, out)
        return found
    finally:
        spark.stop()


def _stream(spark: SparkSession, address: str, out: str) -> int:
    """From the changes of one journal into another, through the daemon; how many rows."""
    reader = (
        spark.readStream.format("journal").option("journal", "pages").option("changes", True).option("partitions", 4)
    )
    puts = reader.load(address).where("op = 'insert'").selectExpr("concat('again-', key) as key", "data")
    writer = (
        puts.writeStream.format("journal").option("journal", "copies").option("checkpointLocation", f"{out}/checkpoint")
    )
    query = writer.trigger(availableNow=True).start(address)
    assert query.awaitTermination(300)
    return sum(progress.numInputRows for progress in query.recentProgress)


def _executor(_: int) -> int:
    """Each executor has a Python process of its own, whose children are the workers."""
    import os

    return os.getppid()


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:])))
