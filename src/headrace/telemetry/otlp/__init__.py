"""Metrics and spans pushed over OTLP."""
