"""Bridges: what another log has, copied into a stream's raw topic in its order, from where the last copy ended."""
