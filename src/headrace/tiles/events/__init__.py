"""Events in plain Python: parsed, classified, and as columns."""
