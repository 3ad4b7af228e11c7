"""Sinks and outboxes, as users declare them."""
