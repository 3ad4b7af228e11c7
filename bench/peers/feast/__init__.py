"""Feast: its own feature server, on the Redis ours reads from."""
