"""HTTP: features, health, metrics."""
