"""Spark against the least that the same work can take, in one run."""
