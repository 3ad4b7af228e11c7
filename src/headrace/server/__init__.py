"""The HTTP server: features, predictions, metrics and the dashboard."""
