"""Drift: served values against a version's training data."""
