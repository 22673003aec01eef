"""
The file system and LMDB: the names of a store's directory, durable writes, disposal. The one package that imports lmdb.

May import journal.core, journal.errors and journal.threads, and nothing else of the engine.
"""
