"""Serving features."""
