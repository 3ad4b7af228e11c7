"""Patterns: sequences of events, matched by an automaton."""
