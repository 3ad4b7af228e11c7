"""Avro records as a producer writes them, with fastavro: an implementation independent of Spark's."""

import json
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_writer

from headrace.kafka.schema_registry.known_schemas import KnownSchemas
from headrace.kafka.schema_registry.registry_client import SchemaDefinition
from headrace.kafka.schema_registry.wire_format import frame_payload


def schema(*fields: dict[str, Any], name: str = "shop.Payment") -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def optional(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return field(name, ["null", type_], default=None, **more)


def logical(kind: str, of: str = "long", **more: Any) -> dict[str, Any]:
    return {"type": of, "logicalType": kind, **more}


def written(text: str, event: dict[str, Any], schema_id: int = 1) -> bytes:
    payload = BytesIO()
    schemaless_writer(payload, parse_schema(json.loads(text)), event)
    return frame_payload(schema_id, payload.getvalue())


def known(*texts: str) -> KnownSchemas:
    """These schemas under the ids 1, 2, 3 …"""
    return KnownSchemas({number: SchemaDefinition(number, "AVRO", text) for number, text in enumerate(texts, 1)})
