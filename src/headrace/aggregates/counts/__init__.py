"""Functions that count: events, distinct values, and the frequency of each value."""
