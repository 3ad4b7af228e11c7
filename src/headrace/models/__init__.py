"""Models: loaded, bound to their inputs, scored, trained and kept in versions; no Spark, no HTTP."""
