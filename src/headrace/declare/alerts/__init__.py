"""Alerts, the values they watch, and the metric catalog."""
