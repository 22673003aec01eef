"""The lines of the report: one file for each thing measured, from a directory and a plan to rows."""
