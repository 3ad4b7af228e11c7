"""The lateness of events."""
