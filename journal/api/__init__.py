"""
What the library promises its callers, whichever way the store is reached: in this process or through a daemon.

Today it holds the protocol that roles need of a journal; an engine and a client each implement it. It may import journal.core and
journal.errors, and it knows neither an engine nor a socket.
"""
