"""Training sets: point-in-time features."""
