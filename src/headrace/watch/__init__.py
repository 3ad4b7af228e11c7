"""Watching a running app: values and a clock in, transitions of alerts out, and who is told of them."""
