"""The commands about a whole store: figures, flags, check, drop, backups. Each module is a command, as journal.cli says."""
