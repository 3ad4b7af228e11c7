"""Sketches: distinct counts, quantiles, frequent items."""
