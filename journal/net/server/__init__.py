"""
The daemon: one process owns a store and serves many backends over Unix sockets, TCP and UDP. One thread has all sockets.

May import journal.net.wire and journal.engine.
"""
