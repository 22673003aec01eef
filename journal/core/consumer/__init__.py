"""The rules of a consumer: whether it is healthy, and when a lease is renewed. May import the modules of journal.core."""
