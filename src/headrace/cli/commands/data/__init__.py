"""Commands about events, dead letters and tables."""
