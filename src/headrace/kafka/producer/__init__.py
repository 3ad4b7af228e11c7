"""Producing events: encoded, checked, and replayed from recordings."""
