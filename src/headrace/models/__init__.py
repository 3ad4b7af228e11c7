"""Models: loading, input binding, scoring, training and versions; no Spark, no HTTP."""
