"""What users write: streams, features, operations, models, sinks and alerts; no Spark, no sockets."""
