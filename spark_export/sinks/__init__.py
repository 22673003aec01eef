"""Sinks: where the messages of a pipeline go. One module each; `registry` finds them by the type that a declaration names."""
