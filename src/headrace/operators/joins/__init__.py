"""Joins of two streams by key and time."""
