"""Windows: their shapes, aggregates, and when results are emitted."""
