"""
Spark for journals: read, export, load and stream them in bulk.

    spark = spark_export.session()
    spark.read.format("journal").option("journal", "pages").load("work.journal")

It stands on journal's public API; journal never imports it. Importing it brings in no Spark: that happens with the first call.
"""

from spark_export.export import export, manifest_of
from spark_export.load import LoadResult, load
from spark_export.manifest import Manifest
from spark_export.session import register, session
from spark_export.shared import SharedSnapshot, snapshot
from spark_export.timelines import same_timeline

__all__ = [
    "LoadResult",
    "Manifest",
    "SharedSnapshot",
    "export",
    "load",
    "manifest_of",
    "register",
    "same_timeline",
    "session",
    "snapshot",
]
