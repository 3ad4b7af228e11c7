"""The status of an app's parts and queries, as they report it."""
