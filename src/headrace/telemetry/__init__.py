"""Telemetry: alerts, metrics and traces for those who operate an app."""
