"""A load: its plan, rows, staging, rejects and commit. May import columns, options and stores."""
