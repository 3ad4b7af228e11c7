"""Sources: what another log has, copied into a stream's raw topic."""
