"""
Spark for journals: read, export, load and stream them in bulk.

    spark = spark_export.session()
    spark.read.format("journal").option("journal", "pages").load("work.journal")

It stands on journal's public API; journal never imports it. Importing it brings in no Spark: that happens with the first call.
"""

from spark_export.api.export import export, manifest_of
from spark_export.api.load import load
from spark_export.api.session import register, session
from spark_export.columns.timelines import same_timeline
from spark_export.exports.manifest import ExportManifest
from spark_export.loads.result import LoadResult
from spark_export.pipelines.runtime.pipeline import Pipeline
from spark_export.snapshots.shared import SharedSnapshot, snapshot

__all__ = [
    "ExportManifest",
    "LoadResult",
    "Pipeline",
    "SharedSnapshot",
    "export",
    "load",
    "manifest_of",
    "register",
    "same_timeline",
    "session",
    "snapshot",
]
