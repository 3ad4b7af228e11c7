"""The status of an app's parts and queries, from their reports."""
