"""
The generations of a journal: rotation, migration of what is left in old ones, retention and compaction of their logs, the files that
go, and the report of all of it.

May import journal.engine.files, .log, .state, .snapshots and .feed.
"""
