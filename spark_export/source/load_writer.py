"""
`df.write.format("journal").mode("append")`: all rows of a DataFrame as one change of a journal.

Spark makes this object on the driver, sends it to the tasks, and gives it back its messages in a process of the driver's own.

W1  Only append. Overwriting means to Spark that what was there is gone, and a journal has work in it that is not done yet;
    `on_conflict` = replace is for keys that come again.
W2  What the tasks of failed and of superfluous attempts wrote is in no message, so it is in no load.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from spark_export.errors import MODE, invalid
from spark_export.loads.plan import TaskPart, arrow_schema, commit, planned, stage
from spark_export.options.load import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class LoadMessage(WriterCommitMessage):
    """The message of a task to the driver."""

    staged: TaskPart


class LoadWriter(DataSourceArrowWriter):
    """A bulk load."""

    def __init__(self, given: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise invalid(
                MODE,
                "mode('overwrite') would drop work that waits: use mode('append'), with on_conflict=replace for keys that are there. "
                "To begin anew, drop the journal (`journal drop`)",
            )  # W1
        self._plan = planned(WriteOptions.parse(given), arrow_schema(schema))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> LoadMessage:
        """In a task: its rows, as a part."""
        return LoadMessage(stage(iterator, self._plan, partition_of_task()))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver: all parts, as one change; or handed over to the process that makes it."""
        handover = self._plan.options.handover
        if handover is None:
            commit(self._plan, staged_in(messages), self._plan.options.once)
        else:
            with open(handover, "wb") as file:
                pickle.dump((self._plan, staged_in(messages)), file)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver: nothing is left."""
        self._plan.staging.remove()


def staged_in(messages: Sequence[WriterCommitMessage | None]) -> list[TaskPart]:
    """What the tasks have done; one that failed has no message (W2)."""
    return [message.staged for message in messages if isinstance(message, LoadMessage)]


def partition_of_task() -> int:
    """The number of the partition that this task works on."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
