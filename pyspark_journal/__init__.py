"""Registers the format "journal": Spark looks for modules called pyspark_… and takes the DefaultSource of each."""

from spark_export.source.source import JournalSource as DefaultSource

__all__ = ["DefaultSource"]
