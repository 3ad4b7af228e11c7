"""Schemas of Avro, Protobuf and JSON Schema, kept by a registry."""
