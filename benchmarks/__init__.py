"""
How fast the engine is, beside the raw limit and its peers, on one disk in one run.

A report, not a test: nothing here asserts a time. See README.md in this folder.
"""
