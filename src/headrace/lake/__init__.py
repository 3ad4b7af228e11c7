"""The lake: Delta and Iceberg tables of what passes through the log, and what is computed from history."""
