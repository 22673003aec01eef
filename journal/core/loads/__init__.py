"""The formats of bulk loads: blocks, sealed blocks, part files, and the sessions that hold them. May import journal.core.entry."""
