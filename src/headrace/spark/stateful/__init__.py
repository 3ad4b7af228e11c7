"""Stateful operations as Spark runs them."""
