"""
The log's files: segments are written, read and synced in groups here. Which of them stay: journal.engine.generations.

May import journal.core.log, journal.engine.files and .runtime. A record that was acknowledged as durable is never truncated.
"""
