"""
A journal that a daemon keeps, as programs use it: the verbs of the library over a connection. Needs no lmdb.

The wire is journal.net; here are the sockets around it, blocking and for asyncio.
"""
