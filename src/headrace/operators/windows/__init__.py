"""Windows: their shapes, aggregates, and triggers."""
