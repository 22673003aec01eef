"""Snapshots that several jobs share, and the copies that a session keeps. May import options and stores."""
