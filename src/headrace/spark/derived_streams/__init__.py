"""Derived streams: the user's DataFrame functions as queries."""
