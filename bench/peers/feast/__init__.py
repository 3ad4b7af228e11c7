"""Feast: its own feature server, on the Redis that Headrace reads from."""
