"""
`readStream.format("journal")` with `changes`: every change of a journal, as it comes; and the same as a batch.

Spark keeps the offsets of a query in its checkpoint, and ours are cursors: {"cursor": "001-0001-000000000000000041"}. A query goes on
after the last cursor of its last batch, whatever other queries read; so any number of queries read one journal, each from its own place.

F1  What is between two cursors is always the same, so a batch that is run again has the same rows.
F2  Only what is durable is handed out: a change that a power cut could undo must not be in a user's table.
F3  BEGIN and END become cursors when load() is called: Spark asks for the first offset more than once.
F4  A `consumer` is there from the first offset on, and holds the log. It moves on when Spark has committed a batch, which it says
    one batch later; so nothing is let go that a restart could need.
F5  Changes that are gone are an error with the oldest cursor that is left, never a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from journal.core.log.cursor import Cursor
from journal.errors import CursorUnavailable
from spark_export.columns.change_batches import batches_of, change_columns
from spark_export.columns.spark_schema import same_columns, struct_of
from spark_export.errors import OPTION_INVALID, SCHEMA_GIVEN, invalid, problem, told
from spark_export.options.changes import ChangeOptions
from spark_export.options.common import JournalPlace
from spark_export.stores.open_store import looked_at, opened_to_read, opened_to_write, told_all

if TYPE_CHECKING:
    import pyarrow as pa

PART_ROWS = 100_000
"""Changes that a task reads, about a second's work."""
PAGE_ROWS = 50_000
"""Changes that are read while the store is open."""
Offset = dict[str, str]


def changes_schema(given: MutableMapping[str, str]) -> StructType:
    """The columns of changes. Spark asks for them in load(), so this is when BEGIN and END get their place (F3)."""
    with told():
        options = ChangeOptions.parse(given)
        with looked_at(options.place) as pages:
            struct = _struct(options, pages.settings.timeline)
        with opened_to_read(options.place) as pages:
            latest = pages.durable_cursor  # F2
            given["latest"] = str(latest)
            start = options.start
            if isinstance(start, str):
                start = pages.oldest_cursor if start == "BEGIN" else latest
                given["start"] = str(start)
            if isinstance(options.end, Cursor) and pages.distance(start, options.end) < 0:
                raise invalid(
                    OPTION_INVALID, f"end ({options.end}) is before start ({start}): give the earlier one as start"
                )
    return struct


class ChangesPart(InputPartition):
    """What one task reads: the changes after one cursor up to another."""

    def __init__(self, place: JournalPlace, after: str, until: str) -> None:
        super().__init__((after, until))
        self.place = place
        self.after = after
        self.until = until


class _Changes:
    """What a stream and a batch have in common."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        with told():
            self._options = ChangeOptions.parse(given)
            with looked_at(self._options.place) as pages:
                own = _struct(self._options, pages.settings.timeline)
        if not same_columns(schema, own):
            raise invalid(
                SCHEMA_GIVEN,
                f"the schema is not that of a journal's changes: leave .schema(…) out. Given: {schema.simpleString()}; ours: "
                f"{own.simpleString()}",
            )
        self._schema = schema

    def _parts(self, after: Cursor, until: Cursor) -> list[InputPartition]:
        """A span of the log, cut into parts of about equal size."""
        place = self._options.place
        with told(), opened_to_read(place) as pages:
            total = pages.distance(after, until)
            number = self._options.partitions or max(1, -(-total // PART_ROWS))
            bounds = [after]
            for index in range(1, number):
                at = pages.shift(after, total * index // number)
                if at != bounds[-1]:
                    bounds.append(at)
        if bounds[-1] != until:
            bounds.append(until)
        return [ChangesPart(told_all(place), str(a), str(b)) for a, b in pairwise(bounds)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task."""
        if not isinstance(partition, ChangesPart):
            return  # Spark's stand-in for an empty list of parts
        arrow = to_arrow_schema(self._schema, timezone="UTC")
        after, until = Cursor.parse(partition.after), Cursor.parse(partition.until)
        is_over = False
        while not is_over:
            # The store is not held while Spark takes its time with a batch, or forgets to ask for the next one.
            with told(), opened_to_read(partition.place) as pages:
                events = list(islice(pages.changes(after, until), PAGE_ROWS))
            is_over = len(events) < PAGE_ROWS
            if events:
                after = events[-1].cursor
                yield from batches_of(events, arrow, self._options.decode)


class ChangesReader(_Changes, DataSourceReader):
    """The changes between two cursors, as a batch."""

    def partitions(self) -> list[InputPartition]:
        """On the driver."""
        start, end = self._options.start, self._options.end
        until = self._options.latest if isinstance(end, str) else end
        assert isinstance(start, Cursor), "changes_schema has resolved it"
        assert until is not None, "and this one"
        return self._parts(start, until)


class ChangesStream(_Changes, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The changes, batch after batch. One object on the driver for each run of a query, so it may keep state."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        super().__init__(given, schema)
        if self._options.end != "END":
            raise invalid(OPTION_INVALID, "end is for a batch read: a stream ends with trigger(availableNow=True)")
        self._target: Cursor | None = None
        self._is_held = False

    def initialOffset(self) -> Offset:
        """Where a new query begins."""
        start = self._options.start
        assert isinstance(start, Cursor), "changes_schema has resolved it"
        self._hold(start)
        return _offset(start)

    def getDefaultReadLimit(self) -> ReadLimit:
        """How much a micro-batch takes."""
        return ReadMaxRows(self._options.max_rows_per_trigger)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The last change of the next micro-batch."""
        after = _cursor(start)
        self._hold(after)
        with told(), opened_to_read(self._options.place) as pages:
            until = pages.durable_cursor if self._target is None else self._target
            there = pages.distance(after, until)
            if there <= 0:
                return start
            if isinstance(limit, ReadMaxRows) and there > limit.max_rows:
                until = pages.shift(after, limit.max_rows)
        return _offset(until)

    def reportLatestOffset(self) -> Offset:
        """The newest cursor there is to read, for the progress reports of the query."""
        with told(), opened_to_read(self._options.place) as pages:
            return _offset(pages.durable_cursor)

    def prepareForTriggerAvailableNow(self) -> None:
        """The query ends with what is there now."""
        with told(), opened_to_read(self._options.place) as pages:
            self._target = pages.durable_cursor

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """On the driver."""
        return self._parts(_cursor(start), _cursor(end))

    def commit(self, end: Offset) -> None:
        """What is up to here will not be asked for again (F4)."""
        if self._options.consumer is not None:
            with told(), opened_to_write(self._options.place) as pages:
                pages.mark_feed(self._options.consumer, _cursor(end))

    def _hold(self, after: Cursor) -> None:
        """Hold the log from here on, unless it is held already (F4)."""
        name = self._options.consumer
        if name is None or self._is_held:
            return
        with told(), opened_to_write(self._options.place) as pages:
            if all(view.name != name for view in pages.feeds()):
                pages.feed(consumer=name, start=after, live=False).close()
        self._is_held = True


def _struct(options: ChangeOptions, timeline: str) -> StructType:
    return struct_of(change_columns(options.decode), timeline)


def _offset(cursor: Cursor) -> Offset:
    return {"cursor": str(cursor)}


def _cursor(offset: Mapping[str, Any]) -> Cursor:
    text = offset.get("cursor")
    if not isinstance(text, str):
        raise problem(
            CursorUnavailable,
            "JOURNAL_CURSOR_UNAVAILABLE",
            f"the checkpoint has the offset {offset!r}, which is not one of a journal",
        )
    return Cursor.parse(text)
