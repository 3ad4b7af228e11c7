"""Predictions joined with the labels that come later."""
