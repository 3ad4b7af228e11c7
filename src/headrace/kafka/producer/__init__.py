"""Producing events: encoding, validation, and replay of recordings."""
