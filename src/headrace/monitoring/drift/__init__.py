"""Drift: what is served against what a version was trained on."""
