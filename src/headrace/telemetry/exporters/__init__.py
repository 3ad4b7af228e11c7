"""Grafana dashboards and Prometheus rules."""
