"""The online store in Cassandra."""
