"""Monitoring of models: outcomes, quality, drift and retraining."""
