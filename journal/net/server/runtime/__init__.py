"""
The daemon as a process: the event loop, signals, systemd, log lines, addresses, sockets, credentials and token files.

Knows no command and no journal. May import journal.net.wire, journal.core and journal.errors.
"""
