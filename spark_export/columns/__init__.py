"""
Entries, changes and rows of a load as Arrow columns, and back. May import spark_export.errors and journal.core; needs no Spark.
"""
