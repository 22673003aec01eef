"""The commands about leases: claim and the ends of a lease. Each module is a command, as journal.cli says."""
