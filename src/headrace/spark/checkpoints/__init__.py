"""Checkpoints, savepoints and the state in them."""
