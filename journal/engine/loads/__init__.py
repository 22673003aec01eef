"""
Bulk loads: staged parts, preparation before the lock, and one record for all rows.

A load is one change: all of its rows or none. May import the pipeline, and journal.engine.work, .state, .files and .log.
"""
