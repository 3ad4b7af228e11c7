"""Serves predictions."""
