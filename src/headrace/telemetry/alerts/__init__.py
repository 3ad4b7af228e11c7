"""Evaluates alerts, stores their state and sends notifications."""
