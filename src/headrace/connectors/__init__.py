"""Connectors: sinks, sources, change data capture and outboxes."""
