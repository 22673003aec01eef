"""CSV, JSON lines and Parquet files as rows of a load. May import columns and loads."""
