"""
The log's files: segments are written, read, synced in groups, retained and compacted here.

May import journal.core.log, journal.engine.files and .runtime. A record that was acknowledged as durable is never truncated.
"""
