"""Joins predictions with later labels."""
