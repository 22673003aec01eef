"""The rules: entries, keys, merging, the life of an entry, records. Pure: no clock, disk, socket or thread."""
