"""Asking a running Headrace from Python: features, predictions and SQL over HTTP."""
