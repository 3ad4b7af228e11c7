"""Streams, their schemas, and where their events come from."""
