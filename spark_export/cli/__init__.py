"""The commands `journal export` and `journal load`. May import every other package of spark_export."""
