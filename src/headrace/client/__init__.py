"""Clients of a running Headrace: features, predictions and SQL over HTTP."""
