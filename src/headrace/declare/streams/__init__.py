"""Streams, their schemas, and their sources."""
