"""The lake: Delta and Iceberg tables of an app's topics, and what is computed from history."""
