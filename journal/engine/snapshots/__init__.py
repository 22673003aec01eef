"""
Snapshots: copies of the rows at one cursor, the directories that hold them, and their readers.

May import journal.engine.files, .state and .runtime. A copy never changes after it was made.
"""
