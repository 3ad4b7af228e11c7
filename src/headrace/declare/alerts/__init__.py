"""Alerts and the values they watch."""
