"""
The rules: entries, keys, merging, the life of an entry, records. Pure: no clock, disk, socket or thread.

Functions take `now` as an argument and return what must change. May import journal.errors, msgpack and mmh3.
"""
