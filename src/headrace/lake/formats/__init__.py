"""Table formats: Delta and Iceberg."""
