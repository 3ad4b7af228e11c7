"""Scoring a stream: each clean event once."""
