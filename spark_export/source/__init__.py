"""The data source: readers, writers and streams, as Spark calls them. May import columns, loads, options, stores, snapshots."""
