"""Data pipelines: a source, a commit log in a journal, and sinks that each have their own functions and offsets."""
