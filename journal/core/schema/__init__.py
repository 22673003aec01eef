"""Schemas of data: fields, types, and their declarations in TOML and XML. May import journal.core and journal.core.entry."""
