"""Models that learn from each outcome."""
