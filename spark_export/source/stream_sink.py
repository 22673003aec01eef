"""
`writeStream.format("journal")`: every micro-batch of a query is put once.

The number of the last batch of each query is kept with the rows, in the same record: a batch that Spark runs again, since it crashed before
it noted the commit, changes nothing.

E1  Exactly once: the name of a load is the query's id, which its checkpoint keeps, and its number is the batch's.
E2  `abort` never undoes: it removes parts. Spark calls it after a commit too, when something behind the sink fails.
E3  Spark makes this object twice for a batch, once to send it to the tasks and once, of the same options, to commit: so what the
    tasks wrote to is known from their messages. Hence a load begins when the object is sent, not when it is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from spark_export.errors import MODE, invalid
from spark_export.loads.plan import LoadPlan, arrow_schema, commit, planned, stage
from spark_export.options.load import WriteOptions
from spark_export.source.load_writer import LoadMessage, partition_of_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class BatchMessage(LoadMessage):
    """The message of a task to the driver, with all that the commit needs (E3)."""

    plan: LoadPlan
    query: str


class StreamSink(DataSourceStreamArrowWriter):
    """The sink of a stream."""

    def __init__(self, given: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise invalid(
                MODE,
                "outputMode('complete') would drop work that waits: use append, or update with on_conflict=replace",
            )
        self._options = WriteOptions.parse(given, is_stream=True)
        self._table = arrow_schema(schema)
        self._plan: LoadPlan | None = None

    def __getstate__(self) -> dict[str, Any]:
        self._plan = self._plan or planned(self._options, self._table, is_stream=True)  # E3
        return dict(self.__dict__)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: its rows, as a part."""
        assert self._plan is not None
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
        assert query is not None, "Spark runs a sink's tasks within a query"
        return BatchMessage(stage(iterator, self._plan, partition_of_task()), self._plan, query)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """On the driver: all parts, as one change, once (E1)."""
        found = [message for message in messages if isinstance(message, BatchMessage)]
        if found:
            commit(found[0].plan, [message.staged for message in found], (found[0].query, batchId))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """On the driver: the parts go, what was committed stays (E2)."""
        for message in messages:
            if isinstance(message, BatchMessage):
                message.plan.staging.remove()
                break
