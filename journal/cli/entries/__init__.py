"""The commands about entries: put, peek, ls. Each module is a command, as journal.cli says."""
