"""
The verbs that look at entries, generations and feeds. They stand on the pipeline and may import journal.engine.work for its look-up.

Buried entries are here as well: their verbs select first, and retry or discard what was selected.
"""
