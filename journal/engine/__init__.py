"""The engine: log files, LMDB, group commit, checkpoints, timers, recovery. On top of journal.core."""
