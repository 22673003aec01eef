"""
The commands of the daemon: each is read from its parameters, done by the engine, and answered in frames of bounded size.

May import journal.engine and journal.net.wire; knows no connection.
"""
