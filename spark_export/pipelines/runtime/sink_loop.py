"""
The loop of one sink: take blocks behind its offset, filter, apply its functions, write, acknowledge.

L1  The offset moves when a batch is written whole, never before; a batch whose messages were all filtered or dropped moves it too.
L2  A batch that fails stops the sink and leaves its offset (`on_error = "stop"`). From the next start on its messages come one at a time,
    each acknowledged before the next; behind the last of them the sink works in bulk again.
L3  A message that fails by itself is named, with its error, in what is kept of the sink.
L4  What an operator skipped is not delivered.
L5  A sink touches no other: it has its own thread, and its failure is its own.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from journal.errors import Invalid
from spark_export.pipelines.contract import PipelineSink
from spark_export.pipelines.declaration import SinkDeclaration
from spark_export.pipelines.functions import Function, FunctionFailed, applied
from spark_export.pipelines.message import ID, key_of
from spark_export.pipelines.runtime.commit_log import Block, CommitLog, SinkOffset, read_block

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_export.options.common import JournalPlace

log = logging.getLogger("journal.pipelines")

SMALL = 20_000
"""Up to so many messages a batch is made on the driver: a Spark job takes longer to begin (0.1 to 0.5 s) than they take."""


class LogBatch:
    """Messages of some blocks, between two ids, behind the filter and the functions of a sink."""

    def __init__(
        self,
        commit_log: CommitLog,
        blocks: Sequence[Block],
        declared: SinkDeclaration,
        ids: tuple[int, int],
        skipped: frozenset[int] = frozenset(),
        place: JournalPlace | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        self.first, self.last = ids
        self._log = commit_log
        matches = re.compile(declared.namespace).search
        self._blocks = [block for block in blocks if matches(block.namespace)]
        self._functions = declared.functions
        self._skipped = skipped
        self._place = place
        self._spark = spark
        self._made: list[pa.Table] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no message can be in it."""
        return not self._blocks

    @property
    def is_small(self) -> bool:
        """Whether it is made on the driver."""
        return self._spark is None or sum(block.messages for block in self._blocks) <= SMALL

    def tables(self) -> Iterator[pa.Table]:
        """The messages on the driver."""
        if not self.is_small:
            yield from self._through()
            return
        if self._made is None:
            self._made = list(self._through())
        yield from self._made

    def frames(self) -> list[tuple[str, tuple[str, ...], DataFrame]]:
        """The messages in Spark: read, filtered and put through the functions in the tasks."""
        if self._spark is None or self._place is None:
            raise Invalid("this batch has no Spark session: the sink must take its tables")
        from pyspark.sql.pandas.types import from_arrow_schema

        found = []
        groups: dict[tuple[str, bytes], list[Block]] = {}
        for block in self._blocks:
            groups.setdefault((block.namespace, block.schema), []).append(block)
        for (namespace, schema), blocks in groups.items():
            shape = _shape(pa.ipc.read_schema(pa.py_buffer(schema)), namespace, self._functions)
            rows = [(str(block.after), str(block.cursor)) for block in blocks]
            cursors = self._spark.createDataFrame(rows, "after string, cursor string").repartition(len(rows))
            read = _Reading(self._place, self._functions, (self.first, self.last), self._skipped, shape)
            frame = cursors.mapInArrow(read, from_arrow_schema(shape, prefer_timestamp_ntz=True))
            for function in self._functions:
                namespace = function.namespace(namespace)
            found.append((namespace, key_of(shape), frame))
        return found

    def _through(self) -> Iterator[pa.Table]:
        for table in self._log.tables(self._blocks):
            made = applied(self._functions, _between(table, (self.first, self.last), self._skipped))
            if made.num_rows:
                yield made


class _Reading:
    """What a task does with the cursors of blocks."""

    def __init__(
        self,
        place: JournalPlace,
        functions: Sequence[Function],
        ids: tuple[int, int],
        skipped: frozenset[int],
        shape: pa.Schema,
    ) -> None:
        self._of = (place, functions, ids, skipped)
        self._shape = bytes(shape.serialize())

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place, functions, ids, skipped = self._of
        shape = pa.ipc.read_schema(pa.py_buffer(self._shape))
        for batch in batches:
            for row in batch.to_pylist():
                table = _between(read_block(place, row["after"], row["cursor"]), ids, skipped)
                made = applied(functions, table)
                if made.num_rows:
                    yield from made.cast(shape).combine_chunks().to_batches()


def _shape(schema: pa.Schema, namespace: str, functions: Sequence[Function]) -> pa.Schema:
    """What the functions make of messages with this schema: they are asked with none."""
    table = schema.empty_table()
    for function in functions:
        table = function.apply(table)
    return table.schema


def _between(table: pa.Table, ids: tuple[int, int], skipped: frozenset[int]) -> pa.Table:
    found = table.column(ID)
    if found[0].as_py() < ids[0] or found[-1].as_py() > ids[1]:
        table = table.filter(pc.and_(pc.greater_equal(found, ids[0]), pc.less_equal(found, ids[1])))
    if skipped:
        table = table.filter(pc.invert(pc.is_in(table.column(ID), pa.array(sorted(skipped), pa.int64()))))
    return table


class SinkLoop:
    """A sink at work on a thread of its own."""

    def __init__(
        self,
        commit_log: CommitLog,
        declared: SinkDeclaration,
        sink: PipelineSink,
        *,
        batch: int,
        place: JournalPlace | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        self._log = commit_log
        self.declared = declared
        self._sink = sink
        self._batch = batch
        self._place = place
        self._spark = spark
        self.offset = SinkOffset()
        self.written = 0
        self.failure: Exception | None = None
        self._is_stopping = threading.Event()
        self._is_draining = threading.Event()
        self._thread: threading.Thread | None = None

    def prepare(self) -> None:
        """Read what is kept, ask the target what it has, and forget the failure of the run before."""
        offset = self._log.offset(self.declared.name)
        has = self._sink.resume(offset.position)
        if has >= self._log.next_id:
            raise Invalid(
                f"sink {self.declared.name} has message {has}, but the commit log ends at {self._log.next_id - 1}: it is another "
                "pipeline's target, or the store is an older copy"
            )
        self.offset = offset._replace(position=max(has, offset.position))

    def step(self) -> bool:
        """Deliver the next batch, or the next message where they come one at a time; False when there is none."""
        position = self.offset.position
        is_single = position < self.offset.single_until
        blocks = self._log.after(position, 1 if is_single else self._batch)
        if not blocks:
            return False
        first = max(position + 1, blocks[0].first)
        last = first if is_single else blocks[-1].last
        blocks = [block for block in blocks if block.first <= last]
        batch = LogBatch(
            self._log, blocks, self.declared, (first, last), frozenset(self.offset.skipped), self._place, self._spark
        )
        try:
            if not batch.is_empty and not (is_single and not list(batch.tables())):
                self._sink.write(batch)
        except Exception as e:
            self._failed(batch, is_single, e)
            if self.declared.on_error == "stop":
                raise
            if is_single:
                self._skip(batch.first, e)
            self._sink.resume(self.offset.position)
            return True
        self._acknowledge(last)
        return True

    def catch_up(self) -> None:
        """Deliver everything that is in the commit log now."""
        while self.step():
            pass

    def start(self) -> None:
        """Work on a thread, until `stop`."""
        self._thread = threading.Thread(target=self._run, name=f"sink {self.declared.name}", daemon=True)
        self._thread.start()

    def drain(self) -> None:
        """Finish with what is in the commit log, then end."""
        self._is_draining.set()
        self._wake()

    def stop(self) -> None:
        """End behind the batch that is under way."""
        self._is_stopping.set()
        self._wake()

    def join(self, timeout_s: float | None) -> bool:
        """Wait for its end; whether it has come."""
        if self._thread is not None:
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        return True

    @property
    def is_alive(self) -> bool:
        """Whether its thread works."""
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._is_stopping.is_set():
                if self.step():
                    continue
                if self._is_draining.is_set():
                    return
                with self._log.grown:
                    if self._log.next_id - 1 <= self.offset.position and not self._is_stopping.is_set():
                        self._log.grown.wait(1.0)
        except Exception as e:  # noqa: BLE001 - kept, logged and told by the run; the other sinks go on (L5)
            self.failure = e
            log.error("pipeline_sink_stopped sink=%s position=%d error=%s", self.declared.name, self.offset.position, e)

    def _wake(self) -> None:
        with self._log.grown:
            self._log.grown.notify_all()

    def _acknowledge(self, last: int) -> None:
        self.written += last - self.offset.position
        offset = self.offset._replace(position=last, failed_id=None, error=None)
        if last >= offset.single_until:
            offset = offset._replace(single_until=-1)
        self._save(offset)

    def _skip(self, message: int, error: Exception) -> None:
        self._log.pages.raise_flag(
            f"pipeline {self._log.pipeline}", f"sink {self.declared.name} skipped message {message}: {error}"
        )
        self._acknowledge(message)

    def _failed(self, batch: LogBatch, is_single: bool, error: Exception) -> None:
        named = batch.first if is_single else error.message_id if isinstance(error, FunctionFailed) else None
        until = max(self.offset.single_until, batch.last)
        self._save(self.offset._replace(single_until=until, failed_id=named, error=str(error)[:4000]))

    def _save(self, offset: SinkOffset) -> None:
        self._log.save(self.declared.name, offset)
        self.offset = self._log.offset(self.declared.name)
