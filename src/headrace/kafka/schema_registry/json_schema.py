"""JSON Schema properties as columns; the gate checks the actual values, as for any JSON."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.declare.streams.encoding import RegisteredColumn, RegisteredSchema
from headrace.errors import HeadraceError
from headrace.kafka.schema_registry.column_mapping import SchemaField

_TEXT_CONVERSIONS = {"string": "as is", "timestamp": "text"}
_CONVERSIONS_BY_TYPE: dict[str, dict[str, str]] = {
    "string": _TEXT_CONVERSIONS,
    "boolean": {"boolean": "as is"},
    "number": dict.fromkeys(("double", "float"), "as is"),
    "integer": dict.fromkeys(("bigint", "int", "smallint", "tinyint", "double", "float"), "as is")
    | {"timestamp": "millis"},
}
_DATE_TIME_CONVERSIONS = {"timestamp": "text", "string": "as is"}
_UNTYPED_CONVERSIONS = dict.fromkeys(
    ("string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "timestamp"), "as is"
)


class JsonSchemaError(HeadraceError):
    """A schema that no stream can be read with."""


def parse_fields(text: str, names: Iterable[str]) -> Mapping[str, SchemaField]:
    """The properties of a schema; one with additional properties may also have any of these names."""
    schema = _parse_object_schema(text)
    is_open = schema.get("additionalProperties", True) is not False
    undeclared_fields = {name: SchemaField(name, "anything", _UNTYPED_CONVERSIONS) for name in names} if is_open else {}
    return undeclared_fields | {
        name: _parse_property(name, property_schema) for name, property_schema in schema.get("properties", {}).items()
    }


def to_registered_schema(version: int, text: str) -> RegisteredSchema:
    """The columns of a registered object, for a stream that declares no schema."""
    columns = []
    for name, property_schema in _parse_object_schema(text).get("properties", {}).items():
        field = _parse_property(name, property_schema)
        if not field.conversions:
            raise JsonSchemaError(
                f"Property {name!r} of the registered schema is {field.type_name}, and a column is a single value of "
                'string, boolean, a number or a time. Name the columns you want: schema="…".'
            )
        columns.append(RegisteredColumn(name, next(iter(field.conversions))))
    return RegisteredSchema(version, tuple(columns))


def _parse_object_schema(text: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JsonSchemaError(f"The schema is not JSON: {error}. Register a JSON Schema.") from error
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise JsonSchemaError("The schema is of no JSON object. Events are objects: register one.")
    return schema


def _parse_property(name: str, property_schema: Any) -> SchemaField:
    declared_type = property_schema.get("type") if isinstance(property_schema, dict) else None
    value_types = [
        type_name
        for type_name in (declared_type if isinstance(declared_type, list) else [declared_type])
        if type_name != "null"
    ]
    kind = str(value_types[0]) if len(value_types) == 1 else "of several types"
    if kind == "string" and property_schema.get("format") == "date-time":
        return SchemaField(name, "string (date-time)", _DATE_TIME_CONVERSIONS)
    return SchemaField(
        name,
        kind,
        _UNTYPED_CONVERSIONS
        if declared_type is None and kind != "of several types"
        else _CONVERSIONS_BY_TYPE.get(kind, {}),
    )
