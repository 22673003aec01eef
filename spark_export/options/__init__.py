"""Options, parsed once into frozen objects. May import columns and errors."""
