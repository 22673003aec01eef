"""The daemon: one process owns a store and serves many backends over Unix sockets, TCP and UDP."""
