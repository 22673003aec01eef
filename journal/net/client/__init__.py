"""
A journal that a daemon keeps, as programs use it: the verbs of the library over a connection. Needs no lmdb.

May import journal.net.wire, journal.core and journal.api; never journal.engine or journal.roles.
"""
