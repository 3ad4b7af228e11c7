"""Alerts, the values they watch, and the catalog of metrics."""
