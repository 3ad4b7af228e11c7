"""Capturing the changes of tables: Debezium in Kafka Connect fills the raw topics of `hr.Changes`."""
