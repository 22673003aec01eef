"""A pipeline at work: its commit log, the loop of each sink, and the run that brings them together."""
