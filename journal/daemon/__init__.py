"""The daemon: a process, or a part of one, that owns a store and serves it to others."""
