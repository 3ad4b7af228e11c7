"""Sinks: rows delivered to other systems."""
