"""Notifications sent to webhooks."""
