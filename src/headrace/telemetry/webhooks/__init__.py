"""Sends notifications to webhooks."""
