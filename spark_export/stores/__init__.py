"""Stores as jobs open them, and the process that owns a temporary directory. May import options."""
