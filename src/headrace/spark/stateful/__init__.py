"""Stateful operations on Spark."""
