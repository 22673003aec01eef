"""
The wire: what a daemon and its clients say to each other.

Everything in this package that has no socket is pure: bytes and times in, bytes and events out (see docs/PROTOCOL.md).
"""
