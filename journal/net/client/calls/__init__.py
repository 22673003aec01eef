"""
The verbs as calls: what is asked of a daemon, and how its answer is read. No socket and no thread.

May import journal.core and journal.net.wire.
"""
