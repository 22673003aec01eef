"""The commands about a whole journal: its generations, compaction, pauses. Each module is a command, as journal.cli says."""
