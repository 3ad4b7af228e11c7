"""Stream scoring: each clean event once."""
