"""Serves features."""
