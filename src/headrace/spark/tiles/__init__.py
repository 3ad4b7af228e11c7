"""The query that folds clean events into tiles."""
