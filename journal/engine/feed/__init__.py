"""
Following the log: feeds, feed consumers and their positions. May import journal.engine.log, .state, .files and .runtime.

A feed shows what is durable, in the order of the log, and nothing that could vanish.
"""
