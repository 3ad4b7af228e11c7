"""Kafka: topics, producers, consumers, dead letters; nothing else imports its client."""
