"""Reads features from the tiles of one entity."""
