"""
One connection, shared by threads: sockets and TLS, reconnects, heartbeats, due notices. May import journal.net.wire.
"""
