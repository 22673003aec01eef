"""
Timestamps as Spark writes them to Parquet unless it is told otherwise: INT96, which has no time zone in it and is an instant all the same.

Arrow reads them as nanoseconds without a zone. Of such columns alone it is known that they are UTC: other timestamps without a zone are
local time of an unknown zone, and stay refused.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import parquet

UNIT = "us"
"""As fine as Spark's own; nanoseconds would end in the year 2262."""
_INSTANT = pa.timestamp(UNIT, "UTC")


def opened(path: object) -> parquet.ParquetFile:
    """A Parquet file whose INT96 columns are read as microseconds."""
    return parquet.ParquetFile(path, coerce_int96_timestamp_unit=UNIT)


def instants(file: parquet.ParquetFile) -> frozenset[str]:
    """The columns that are INT96."""
    columns = map(file.schema.column, range(len(file.schema.names)))
    return frozenset(one.path for one in columns if one.physical_type == "INT96" and "." not in one.path)


def typed(schema: pa.Schema, names: frozenset[str]) -> pa.Schema:
    """The same columns, these as instants."""
    return pa.schema([field.with_type(_INSTANT) if field.name in names else field for field in schema])


def converted(batch: pa.RecordBatch, names: frozenset[str]) -> pa.RecordBatch:
    """The same rows, these columns as instants."""
    return batch.cast(typed(batch.schema, names)) if names else batch
