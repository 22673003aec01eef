"""Where the messages of pipelines come from: one module for each source."""
