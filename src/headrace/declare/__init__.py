"""The user's words: pure Python, no Spark, no sockets."""
