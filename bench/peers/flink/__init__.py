"""Flink: its SQL on the same events, in its own local cluster."""
