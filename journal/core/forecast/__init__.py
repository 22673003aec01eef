"""The load ahead of a journal: steps, spikes, and the consumers that it takes. May import journal.core and journal.core.entry."""
