"""The parts of a running app."""
