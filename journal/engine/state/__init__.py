"""
What is stored and what is in memory of it: rows and indexes of a generation, leases, the order of work.

Every change comes as an effect (journal.core.entry.effects), from a call or from the log, and is applied in the same way. May import
journal.engine.files, .log and .runtime.
"""
