"""The engine: gates, tiles and operations as Spark streaming queries."""
