"""Evidently: drift by its own defaults, on the windows ours are found in."""
