"""
The log as bytes and arithmetic: records, the events that followers get of them, cursors and acknowledgements.

May import journal.core.entry. No file is read here; that is journal.engine.log.
"""
