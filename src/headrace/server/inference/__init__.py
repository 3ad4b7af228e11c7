"""Serving predictions."""
