"""
Producers and consumers: they put entries and work on them, over the verbs of a journal (journal.api.backend).
"""
