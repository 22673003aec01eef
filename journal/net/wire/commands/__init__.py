"""
The commands of the protocol: their parameters, types, rights and retries, and the document that is made of them.

May import journal.core, and journal.net.wire's frames, limits, quoting and values.
"""
