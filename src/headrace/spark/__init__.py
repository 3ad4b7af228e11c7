"""The engine: gates, tiles and operations as streaming queries of Spark."""
