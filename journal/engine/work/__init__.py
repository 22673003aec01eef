"""
The verbs that change entries: put, claim, the ends of a lease, moves and deletes, and the timers, which are verbs of the engine itself.

They stand on the pipeline and may import journal.engine.state, .log, .files and .runtime.
"""
