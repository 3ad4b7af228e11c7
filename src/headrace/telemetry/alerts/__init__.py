"""Alerts: evaluated, kept, notified."""
