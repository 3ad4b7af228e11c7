"""Models: inputs, labels, metrics, drift and retraining, as users declare them."""
