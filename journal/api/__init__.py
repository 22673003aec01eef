"""
The public face, once: Store, Journal, MergedJournals, Lease and the loop of a worker, with their signatures, texts and checks of
arguments.

They speak to a backend (journal.api.backend), which keeps the entries in this process or reaches the daemon that does. It may import
journal.core and journal.errors, and it knows neither an engine nor a socket.
"""
