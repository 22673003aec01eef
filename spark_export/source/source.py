"""
The data source of the format "journal": which part of spark_export reads, writes and follows.

D1  There is no `pushFilters`: Spark 4.3 keeps a pushed reader on the object that all filters over one load() share, and returns the rows of
    one of them for all. Filters are options, and Spark applies its own above.
D2  What a stream delivers is changes, not entries, and Spark does not tell `schema()` whether a stream or a batch asks. So `changes` =
    true is an option: streams require it, and a batch read takes it too.

Spark makes this object on the driver, and again wherever a task runs: imports are done when they are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from spark_export.options.common import asks_for_changes

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class JournalSource(DataSource):
    """`format("journal")`."""

    @classmethod
    def name(cls) -> str:
        """As users write it."""
        return "journal"

    def schema(self) -> StructType:
        """The columns of the entries, or of the changes (D2)."""
        if asks_for_changes(self.options):
            from spark_export.source.changes_reader import changes_schema

            return changes_schema(self.options)
        from spark_export.source.entries_reader import entries_schema

        return entries_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch: the entries of one snapshot, or the changes between two cursors."""
        if asks_for_changes(self.options):
            from spark_export.source.changes_reader import ChangesReader

            return ChangesReader(self.options, schema)
        from spark_export.source.entries_reader import EntriesReader

        return EntriesReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A bulk load."""
        from spark_export.source.load_writer import LoadWriter

        return LoadWriter(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The changes, as they come."""
        from spark_export.source.changes_reader import ChangesStream

        return ChangesStream(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Each batch once."""
        from spark_export.source.stream_sink import StreamSink

        return StreamSink(self.options, schema, overwrite)
