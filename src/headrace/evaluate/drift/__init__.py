"""Drift: what is served now beside what a version was trained on; pure, in numpy, scipy's functions and River."""
