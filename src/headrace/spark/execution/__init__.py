"""Running the queries of an app: planned, drained, in real time, restarted."""
