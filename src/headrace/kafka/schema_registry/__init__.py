"""Avro, Protobuf and JSON Schema schemas from a registry."""
