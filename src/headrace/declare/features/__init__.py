"""Feature views: aggregates over windows by entity, and features computed on demand."""
