"""Metrics of the server and of the app."""
