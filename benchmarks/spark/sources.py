"""
The references as sources of Spark: one that yields a constant batch, one that takes batches and drops them.

The classes are made inside functions, so that they travel to Spark's workers by value: those need not have this package.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType


def register_constant(spark: SparkSession, struct: StructType, batch: bytes, repeats: int, partitions: int) -> None:
    """The format "constant": a batch (an Arrow stream), so many times in each of so many partitions."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def partitions(self) -> list[Any]:
            return [InputPartition(number) for number in range(partitions)]

        def read(self, partition: Any) -> Any:
            import pyarrow as pa

            with pa.ipc.open_stream(batch) as stream:
                (one,) = list(stream)
            for _ in range(repeats):
                yield one

    class Constant(DataSource):
        @classmethod
        def name(cls) -> str:
            return "constant"

        def schema(self) -> StructType:
            return struct

        def reader(self, schema: StructType) -> Any:
            return Reader()

    spark.dataSource.register(Constant)


def register_drain(spark: SparkSession) -> None:
    """The format "drain": takes Arrow batches, counts them, and keeps nothing."""
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

    class Writer(DataSourceArrowWriter):
        def write(self, iterator: Any) -> Any:
            rows = 0
            for batch in iterator:
                rows += batch.num_rows
            return WriterCommitMessage()

        def commit(self, messages: Any) -> None:
            pass

        def abort(self, messages: Any) -> None:
            pass

    class Drain(DataSource):
        @classmethod
        def name(cls) -> str:
            return "drain"

        def writer(self, schema: StructType, overwrite: bool) -> Any:
            return Writer()

    spark.dataSource.register(Drain)
