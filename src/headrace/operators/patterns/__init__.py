"""Patterns: sequences of events found by an automaton."""
