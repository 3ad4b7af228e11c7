"""Events written in Avro, each with the id its schema was registered under."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_writer

from headrace.errors import HeadraceError
from headrace.log.schemas.registry import Registry
from headrace.log.schemas.wire import framed


class Unwritable(HeadraceError):
    """An event that its schema does not hold."""


@dataclass(frozen=True)
class AvroEncoder:
    """Writes events of one registered schema."""

    schema_id: int
    parsed: Any

    def encode(self, event: Mapping[str, Any]) -> bytes:
        """An event as records have it; times are datetimes."""
        written = BytesIO()
        try:
            schemaless_writer(written, self.parsed, event)
        except (ValueError, TypeError, KeyError, OverflowError, AttributeError, IndexError) as problem:
            raise Unwritable(f"wrong-type: {type(problem).__name__} {problem}") from problem
        return framed(self.schema_id, written.getvalue())


def registered_encoder(registry: Registry, subject: str, text: str) -> AvroEncoder:
    """Register a schema, or find it registered, and write with it."""
    return encoder_of(registry.register(subject, "AVRO", text), text)


def encoder_of(schema_id: int, text: str) -> AvroEncoder:
    """Write with a schema that is registered."""
    return AvroEncoder(schema_id, parse_schema(json.loads(text)))
