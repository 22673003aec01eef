"""
The verbs of the library as values: one frozen class for each, declared in the module of its group. `registry` has them all.

Pure: what a verb does is the engine's, how it is sent is the protocol's.
"""
