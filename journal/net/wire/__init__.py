"""
The protocol without sockets: bytes and times in, bytes and events out (see docs/PROTOCOL.md).

Pure, like journal.core, which it may import with journal.errors.
"""
