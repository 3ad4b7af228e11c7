"""Training sets: features as they were at a time."""
