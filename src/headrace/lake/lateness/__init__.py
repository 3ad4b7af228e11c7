"""How late events come."""
