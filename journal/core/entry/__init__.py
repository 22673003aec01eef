"""
An entry: its keys, its row as bytes, the rules of merging, and the effects that rules decide on.

May import journal.core.limits and journal.errors. The life cycle stands above it, in journal.core.lifecycle: it needs the settings of a
journal, and these need the merge rules.
"""
