"""The public functions: session, register, load, export. May import everything below."""
