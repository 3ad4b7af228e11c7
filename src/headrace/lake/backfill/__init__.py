"""Backfills: a view's history, folded in one batch."""
