"""
The engine: log files, LMDB, group commit, checkpoints, timers, recovery. On top of journal.core.

The modules of this package are the spine, readable in this order: store, recovery, pipeline, own_pipeline, checkpoints, catalog, check.
Its packages lie below the pipeline (files, runtime, log, state, snapshots, feed, generations) or stand on it (work, read, loads, merged,
backups).
"""
