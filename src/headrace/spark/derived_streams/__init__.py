"""Derived streams: the user's functions of DataFrames as queries."""
