"""
Backups of a store that is in use, and the directories that hold them. Stands on the pipeline; journal.engine.restore stands on the store.
"""
