"""Kafka: topics, producers, consumers, dead letters; no other package imports its client."""
