"""Schemas that a registry keeps: asked for, resolved to the columns of a stream, and written into records."""
