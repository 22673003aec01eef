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
    from collections.abc import MutableMapping

    from pyspark.sql.types import StructType


class JournalSource(DataSource):
    """`format("journal")`."""

    @classmethod
    def name(cls) -> str:
        """As users write it."""
        return "journal"

    def schema(self) -> StructType:
        """The columns of the entries, or of the changes (D2); of a table that is made, with its options."""
        from spark_export.source.catalog_table import is_made, kept, own_options

        if not is_made(self.options):
            return _columns(self.options)
        options = own_options(self.options)
        return kept(_columns(dict(options)), options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch: the entries of one snapshot, or the changes between two cursors."""
        options, schema = self._read_options(schema)
        if asks_for_changes(options):
            from spark_export.source.changes_reader import ChangesReader

            return ChangesReader(options, schema)
        from spark_export.source.entries_reader import EntriesReader

        return EntriesReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A bulk load."""
        from spark_export.source.load_writer import LoadWriter

        return LoadWriter(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The changes, as they come."""
        from spark_export.source.changes_reader import ChangesStream

        return ChangesStream(*self._read_options(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Each batch once."""
        from spark_export.source.stream_sink import StreamSink

        return StreamSink(self.options, schema, overwrite)

    def _read_options(self, schema: StructType) -> tuple[MutableMapping[str, str], StructType]:
        """Those of load(), or of the table that is read; and the columns."""
        from spark_export.source.catalog_table import is_table, recalled

        if not is_table(self.options):
            return self.options, schema
        options, schema = recalled(self.options, schema)
        _columns(options)  # the places of BEGIN and END are those of this read, not of CREATE TABLE
        return options, schema


def _columns(options: MutableMapping[str, str]) -> StructType:
    if asks_for_changes(options):
        from spark_export.source.changes_reader import changes_schema

        return changes_schema(options)
    from spark_export.source.entries_reader import entries_schema

    return entries_schema(options)
