"""Flink: its SQL on the same events, in a local cluster of its own."""
