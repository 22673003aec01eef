"""Producers and consumers: who puts entries and who works on them, over the verbs of a journal."""
