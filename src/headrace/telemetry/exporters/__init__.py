"""Dashboards and rules for other tools."""
