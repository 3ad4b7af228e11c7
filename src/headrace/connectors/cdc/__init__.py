"""Change data capture: Debezium in Kafka Connect fills the raw topics of `hr.Changes`."""
