"""
A run of a pipeline: one source that fills the commit log, and a loop for each sink.

R1  Every message is durable in the commit log before a sink sees it, and before the source is told that it may forget it.
R2  A namespace whose copy is not complete is copied from its beginning; then its changes follow.
R3  With `strict` the source is not asked for more while a sink is behind, and a sink that stops ends the run.
R4  A clean stop gives the sinks `stop_timeout` to write what is in the commit log; what they do not get done comes with the next run.
R5  The process owns the store: two runs of one pipeline cannot be at work together. Tasks of Spark and operators ask the daemon that the
    run starts beside it.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import journal
from journal.errors import Invalid
from spark_export.options.common import JournalPlace
from spark_export.pipelines.contract import COPY, SYNC, PipelineSink, PipelineSource, SourceCopy
from spark_export.pipelines.declaration import Declaration
from spark_export.pipelines.message import INSERT, NAMESPACE, message_schema
from spark_export.pipelines.runtime.commit_log import BLOCK_ROWS, CommitLog, mode_of, packed
from spark_export.pipelines.runtime.sink_loop import SinkLoop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STOP = "_stop"
"""The key in the journal of offsets that asks a run to end; no sink can have this name."""
POLL_S = 0.2


class SinkReport(NamedTuple):
    """What became of a sink in a run."""

    position: int
    written: int
    """Messages that it acknowledged in this run: written, dropped or skipped."""
    error: str | None


class RunReport(NamedTuple):
    """What became of a run."""

    last: int
    """The id of the last message in the commit log; -1 when there is none."""
    sinks: Mapping[str, SinkReport]

    @property
    def is_whole(self) -> bool:
        """Whether every sink has everything."""
        return all(sink.error is None and sink.position == self.last for sink in self.sinks.values())


class PipelineRun:
    """A pipeline at work, in a store that this process has open."""

    def __init__(
        self,
        store: journal.Store,
        declared: Declaration,
        source: PipelineSource,
        sinks: Mapping[str, PipelineSink],
        *,
        spark: SparkSession | None = None,
        on_progress: Callable[[str, int, int | None], None] | None = None,
    ) -> None:
        if store.is_remote:
            raise Invalid("a pipeline runs where its store is: give the path of a store, not the address of its daemon")
        self._store = store
        self._declared = declared
        self._source = source
        self._sinks = sinks
        self._spark = spark
        self._progress = on_progress or (lambda namespace, done, total: None)
        self._is_stopping = threading.Event()
        self.log = CommitLog(store, declared.name, list(sinks))
        place = JournalPlace(path=store.location, journal=self.log.pages.name)
        self.loops = [
            SinkLoop(self.log, one, sinks[one.name], batch=declared.batch, place=place, spark=spark)
            for one in declared.sinks
        ]

    def run(self, *, until_caught_up: bool = False) -> RunReport:
        """Copy and follow until `stop`, or until nothing is new; then let the sinks finish (R4)."""
        with contextlib.ExitStack() as held:
            if self._spark is not None:
                self._store.serve()  # R5; it ends with the store
            held.callback(self._source.close)
            for loop in self.loops:
                sink = self._sinks[loop.declared.name]
                held.callback(sink.close)
                sink.start(self._spark, self._declared.name, loop.declared.name)
                loop.prepare()
            self.log.offsets.delete(STOP)
            for loop in self.loops:
                loop.start()
            try:
                self._fill(until_caught_up)
            finally:
                self._finish()
        return self.report()

    def stop(self) -> None:
        """Ask the run to end, from any thread."""
        self._is_stopping.set()
        with self.log.grown:
            self.log.grown.notify_all()

    def report(self) -> RunReport:
        """How far the sinks are."""
        return RunReport(
            self.log.next_id - 1,
            {
                loop.declared.name: SinkReport(
                    loop.offset.position, loop.written, None if loop.failure is None else str(loop.failure)
                )
                for loop in self.loops
            },
        )

    def _fill(self, until_caught_up: bool) -> None:
        mode = self._declared.mode
        matches = re.compile(self._declared.namespace).search
        names = [name for name in self._source.check() if matches(name)]
        states = self.log.states()
        self._wait_for_sinks()
        if self._is_ending():
            return
        self._source.start(self._spark, states, mode)
        if "copy" in mode:
            wanted = [name for name in names if mode_of(states, name) == COPY]
            for copy in self._source.copies(wanted) if wanted else ():
                if self._is_ending():
                    return
                self._copy(copy)
        if "sync" not in mode:
            return
        for parts in self._source.sync():
            kept = [
                (namespace, part.table, part.table.num_rows, part.position)
                for part in parts
                if matches(namespace := part.table.column(NAMESPACE)[0].as_py())
            ]
            if kept:
                self.log.append(kept, SYNC)
            if parts:
                self._source.advance(parts[-1].position)  # R1
            elif until_caught_up:
                return
            self._wait_for_sinks()
            if self._is_ending():
                return
            if not parts:
                self._is_stopping.wait(POLL_S)

    def _copy(self, copy: SourceCopy) -> None:
        """Copy one namespace (R2)."""
        done, schema = 0, message_schema(pa.struct([]), copy.key)
        for arrow, count, position, found in _blocks(copy):
            self._wait_for_sinks()
            if self._is_ending():
                return
            self.log.append([(copy.namespace, arrow, count, position)], COPY)
            done, schema = done + count, found
            self._progress(copy.namespace, done, copy.rows)
        self.log.complete(copy.namespace, copy.position, schema)

    def _is_ending(self) -> bool:
        if self._declared.strict and any(loop.failure for loop in self.loops):
            return True
        return self._is_stopping.is_set() or self.log.offsets.get(STOP) is not None

    def _wait_for_sinks(self) -> None:
        """With `strict`: until every sink has everything, or one has failed (R3)."""
        while self._declared.strict and not self._is_ending():
            if all(loop.offset.position >= self.log.next_id - 1 for loop in self.loops):
                return
            with self.log.grown:
                self.log.grown.wait(0.02)

    def _finish(self) -> None:
        for loop in self.loops:
            loop.drain()
        ends = time.monotonic() + self._declared.stop_timeout_ms / 1000
        for loop in self.loops:
            if not loop.join(max(0.0, ends - time.monotonic())):
                loop.stop()
        for loop in self.loops:
            loop.join(None)  # behind the batch that is under way: a sink is never left in the middle


def _blocks(copy: SourceCopy) -> Iterator[tuple[Any, int, Any, pa.Schema]]:
    """The blocks of a copy: messages or their bytes, how many, the position, the schema."""
    if copy.frame is None:
        for part in copy.parts:
            yield part.table, part.table.num_rows, part.position, part.table.schema
        return
    from pyspark.sql.pandas.types import to_arrow_schema

    rows = to_arrow_schema(copy.frame.schema, timezone="UTC")
    schema = message_schema(pa.struct(list(rows)), copy.key)
    packing = _Packing(copy.namespace, copy.timestamp, bytes(schema.serialize()))
    made: DataFrame = copy.frame.mapInArrow(packing, "messages long, arrow binary")
    for row in made.toLocalIterator(prefetchPartitions=True):
        yield bytes(row["arrow"]), row["messages"], copy.position, schema


class _Packing:
    """What a task does with rows that are copied: it makes blocks of inserts."""

    def __init__(self, namespace: str, timestamp: int, schema: bytes) -> None:
        self._of = (namespace, timestamp, schema)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        namespace, timestamp, shape = self._of
        schema = pa.ipc.read_schema(pa.py_buffer(shape))
        for batch in batches:
            for start in range(0, batch.num_rows, BLOCK_ROWS):
                part = batch.slice(start, BLOCK_ROWS)
                count = part.num_rows
                columns: Sequence[pa.Array] = [
                    pa.nulls(count, pa.int64()).fill_null(0),
                    pa.nulls(count, pa.string()).fill_null(INSERT),
                    pa.nulls(count, pa.int64()).fill_null(timestamp),
                    pa.nulls(count, pa.string()).fill_null(namespace),
                    pa.StructArray.from_arrays(part.columns, part.schema.names).cast(schema.field("data").type),
                ]
                table = pa.table(list(columns), schema=schema)
                yield pa.record_batch({"messages": pa.array([count], pa.int64()), "arrow": pa.array([packed(table)])})
