"""The online store in Redis."""
