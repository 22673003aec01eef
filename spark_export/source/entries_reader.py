"""
`spark.read.format("journal")`: the entries of a journal, as of one moment.

R1  All tasks of a load() read one snapshot, which `partitions()` takes: a copy of the rows, or one that the daemon keeps. No task reads
    live rows, which change between two tasks.
R2  Spark calls `partitions()` once for a load(), so a DataFrame is one snapshot however often it is used. To see what is new: load() again.
R3  Tasks open neither the store nor its files. Copies lie where Spark keeps its own files and go with the session.
R4  A schema that is not the journal's is refused: with one that the user gives, columns would lose their meaning (timeline, field).
R5  A load() of a journal that has not changed since the last one of the session reads the copy that is there
    (spark_export.snapshots.copy_cache).

Runs in processes that Spark starts beside the driver (schema, planning) and in its workers (reading).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark import SparkFiles
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from journal.core.schema.schema import Schema
from journal.engine.snapshots.snapshot import EngineSnapshotPart
from journal.errors import NotFound
from spark_export.columns.layout import Column, layout
from spark_export.columns.spark_schema import chosen, same_columns, struct_of
from spark_export.errors import OPTION_INVALID, SCHEMA_GIVEN, SNAPSHOT_NOT_VISIBLE, invalid, problem, told
from spark_export.options.common import ReadOptions
from spark_export.snapshots import copy_cache
from spark_export.snapshots.shared import Counter, SharedSnapshot, parts_number
from spark_export.stores.open_store import looked_at, opened_to_read, trusting

if TYPE_CHECKING:
    import pyarrow as pa


def entries_schema(given: Mapping[str, str]) -> StructType:
    """The columns of the entries, with their meaning."""
    with told():
        return ReadPlan.of(ReadOptions.parse(given)).struct


class ReadPlan:
    """What is read: the options, the journal's schema, the columns that are wanted."""

    def __init__(self, options: ReadOptions, schema: Schema | None, timeline: str) -> None:
        self.options = options
        self.schema = schema
        self.timeline = timeline
        if options.decode == "fields" and schema is None:
            raise invalid(
                OPTION_INVALID,
                f"decode is fields, but the journal {options.place.journal!r} has no schema: use json or msgpack",
            )
        self.columns: tuple[Column, ...] = chosen(layout(schema, options.decode), options.columns)
        self.struct: StructType = struct_of(self.columns, timeline)

    @classmethod
    def of(cls, options: ReadOptions) -> ReadPlan:
        """What is read with these options, of the journal as it is now."""
        if options.snapshot is not None:
            shared = SharedSnapshot.found(options.snapshot, options.place)
            return cls(options, shared.schema, shared.timeline)
        with looked_at(options.place) as pages:
            return cls(options, pages.schema, pages.settings.timeline)


class EntriesPart(InputPartition):
    """What one task reads."""

    def __init__(self, part: Any, taken: int, counter: Counter | None = None) -> None:
        super().__init__(part)
        self.taken = taken
        self.counter = counter


class EntriesReader(DataSourceReader):
    """Reads the entries of one snapshot."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        with told():
            self._plan = ReadPlan.of(ReadOptions.parse(given))
        if not same_columns(schema, self._plan.struct):
            raise invalid(
                SCHEMA_GIVEN,
                "the schema is not the journal's own: leave .schema(…) out, and choose with option('columns', …); if the journal's "
                f"schema was changed just now, load() again. Given: {schema.simpleString()}; the journal's: "
                f"{self._plan.struct.simpleString()}",
            )
        self._struct = schema

    def partitions(self) -> list[InputPartition]:
        """Take the snapshot (R1), on the driver."""
        options = self._plan.options
        with told():
            if options.snapshot is not None:
                shared = SharedSnapshot.found(options.snapshot, options.place)
                return [EntriesPart(part, shared.taken, shared.counter(n)) for n, part in enumerate(shared.parts)]
            top = SparkFiles.getRootDirectory()
            with opened_to_read(options.place) as pages:
                shot = pages.snapshot(directory=top, known=copy_cache.known(top, options.place))  # R5
                parts = shot.parts(
                    parts_number(options.partitions, shot.size),
                    since=options.rows.since,
                    until=options.rows.until,
                    priorities=options.rows.priorities,
                )
            if isinstance(parts[0], EngineSnapshotPart):
                copy_cache.remember(top, options.place, parts[0].copies)
            return [EntriesPart(part, shot.taken) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part, in a task."""
        if not isinstance(partition, EntriesPart):
            return  # Spark's stand-in for an empty list of parts
        from spark_export.columns.entry_arrays import of_part
        from spark_export.columns.entry_batches import BatchShaper

        options, plan = self._plan.options, self._plan
        arrow = to_arrow_schema(self._struct, timezone="UTC")
        shaper = BatchShaper(
            arrow, plan.columns, options.rows, partition.taken, data=plan.schema, decode=options.decode
        )
        with told():
            try:
                for entries in of_part(trusting(partition.value, options.place)):
                    batch = shaper.batch(entries)
                    if batch is not None:
                        yield batch
                    if partition.counter is not None:
                        partition.counter.add(len(entries))
            except (FileNotFoundError, NotFound) as e:
                raise problem(NotFound, SNAPSHOT_NOT_VISIBLE, _not_visible(e)) from e


def _not_visible(error: Exception) -> str:
    return (
        f"this executor does not find the snapshot ({error}). It goes with the session that took it, or with the daemon's lease on "
        "it: load() again. On other machines than the store's, read through its daemon: option('path', 'tcp://HOST:PORT')"
    )
