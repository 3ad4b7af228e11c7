"""Avro schemas: fields as columns, and the projection that a stream reads.

    writer      {id: string, amount: float, at: long (timestamp-millis), address: {…}}
    columns     id string, amount double, at timestamp
    projection  {id: string, amount: float, at: long}          address is skipped, never decoded

A projection keeps the writer's own types without their logical ones, so that no decoder interprets a unit: Headrace
itself widens a float for a double column, and scales a long for a time.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.declare.streams.encoding import RegisteredColumn, RegisteredSchema
from headrace.declare.streams.schema import Schema
from headrace.errors import HeadraceError
from headrace.kafka.schema_registry.column_mapping import ColumnProblem, SchemaColumnMapping, SchemaField
from headrace.tiles.finish import to_datetime

TIMESTAMP_UNITS = {
    f"{local}timestamp-{unit}": unit for local in ("", "local-") for unit in ("millis", "micros", "nanos")
}
US_PER_UNIT = {"millis": 1000.0, "micros": 1.0, "nanos": 0.001}
_INTEGER_COLUMNS = {"int": ("bigint", "int", "smallint", "tinyint"), "long": ("bigint",)}
_FLOATING_COLUMNS = ("double", "float")
_COLUMN_TYPES = {"int": "int", "long": "bigint", "float": "float", "double": "double", "boolean": "boolean"}
_AVRO_TYPES: Mapping[str, str | Mapping[str, str]] = {
    "string": "string",
    "boolean": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
}

_PROMOTIONS = {
    "string": ("string", "bytes"),
    "boolean": ("boolean",),
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "double": ("double",),
}


class AvroSchemaError(HeadraceError):
    """A schema that no stream can be read with."""


@dataclass(frozen=True)
class AvroField(SchemaField):
    """A field of an Avro record: its type, and whether it may be null."""

    type: Any
    is_optional: bool
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None


@dataclass(frozen=True)
class AvroRecordSchema:
    """A record's full name and its fields."""

    name: str
    fields: Mapping[str, AvroField]


def parse_record_schema(text: str) -> AvroRecordSchema:
    """Parse the record of an Avro schema."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AvroSchemaError(f"The schema is not JSON: {error}. Register an Avro schema.") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise AvroSchemaError("The schema is no Avro record. Events are records: register one.")
    try:
        return _build_record_schema(schema)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise AvroSchemaError(
            f"The schema is no Avro record: {type(error).__name__} {error}. Register a valid one."
        ) from error


def _build_record_schema(schema: Mapping[str, Any]) -> AvroRecordSchema:
    name = _full_name(schema, "")
    namespace = name.rpartition(".")[0]
    named_types: dict[str, Any] = {}
    _collect_named_types(schema, namespace, named_types)
    fields = (_parse_field(field, namespace, named_types) for field in schema["fields"])
    return AvroRecordSchema(name, {field.name: field for field in fields})


def _full_name(schema: Mapping[str, Any], enclosing_namespace: str) -> str:
    name = str(schema["name"])
    namespace = schema.get("namespace") or enclosing_namespace
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _collect_named_types(
    schema: Any, namespace: str, named_types: dict[str, Any], enclosing_types: frozenset[str] = frozenset()
) -> None:
    """Every named type, to resolve references; a recursive one is rejected, since it could nest without end."""
    if isinstance(schema, str):
        if schema in enclosing_types or f"{namespace}.{schema}" in enclosing_types:
            raise AvroSchemaError(
                f"Type {schema!r} contains itself, and a few bytes could nest without end. Leave it out."
            )
    elif isinstance(schema, list):
        for member in schema:
            _collect_named_types(member, namespace, named_types, enclosing_types)
    elif isinstance(schema, dict):
        if schema.get("type") in ("record", "enum", "fixed", "error"):
            full_name = _full_name(schema, namespace)
            _require_valid_names(full_name, *schema.get("symbols", ()))
            named_types[full_name], namespace, enclosing_types = (
                schema | {"name": full_name},
                full_name.rpartition(".")[0],
                enclosing_types | {full_name},
            )
        inner_types = [schema.get("type"), schema.get("items"), schema.get("values")]
        for member in [*inner_types, *(field["type"] for field in schema.get("fields", ()))]:
            _collect_named_types(member, namespace, named_types, enclosing_types)


def _require_valid_names(full_name: str, *symbols: str) -> None:
    """Reject what Avro's own parser would: an invalid name or symbol."""
    for name in (*full_name.split("."), *symbols):
        if to_avro_name(name) != name or not name:
            raise AvroSchemaError(f"{name!r} is no name in Avro. Register a valid schema.")


def _parse_field(field: Mapping[str, Any], namespace: str, named_types: Mapping[str, Any]) -> AvroField:
    _require_valid_names(field["name"])
    declared_type = field["type"]
    branches = declared_type if isinstance(declared_type, list) else [declared_type]
    value_types = [_resolve_type(branch, namespace, named_types) for branch in branches if branch != "null"]
    is_optional = len(value_types) < len(branches)
    type_ = value_types[0] if len(value_types) == 1 else {"type": "union"}
    kind, logical_type = type_["type"], type_.get("logicalType")
    return AvroField(
        name=str(field["name"]),
        type_name=f"{kind} ({logical_type})"
        if logical_type
        else "a union of several types"
        if kind == "union"
        else kind,
        conversions=_column_conversions(kind, logical_type),
        type=_strip_logical_type(type_, logical_type),
        is_optional=is_optional,
        aliases=tuple(field.get("aliases", ())),
        has_default="default" in field,
        default=field.get("default"),
    )


def _resolve_type(declared_type: Any, namespace: str, named_types: Mapping[str, Any]) -> dict[str, Any]:
    """A type as an object, with names resolved."""
    if isinstance(declared_type, str):
        named_type = named_types.get(declared_type) or named_types.get(f"{namespace}.{declared_type}")
        return named_type if named_type is not None else {"type": declared_type}
    if isinstance(declared_type["type"], dict):
        return _resolve_type(declared_type["type"], namespace, named_types)
    if declared_type["type"] in ("enum", "fixed", "record"):
        return dict(declared_type) | {"name": _full_name(declared_type, namespace)}
    return dict(declared_type)


def _column_conversions(kind: str, logical_type: str | None) -> dict[str, str]:
    """The column types that can read a field, the likeliest first, and the conversion of each."""
    if kind == "long" and logical_type in TIMESTAMP_UNITS:
        return {"timestamp": TIMESTAMP_UNITS[logical_type], "bigint": "as is"}
    if logical_type == "decimal" and kind in ("bytes", "fixed"):
        return dict.fromkeys(_FLOATING_COLUMNS, "as is")
    if kind in _INTEGER_COLUMNS:
        conversions = dict.fromkeys((*_INTEGER_COLUMNS[kind], *_FLOATING_COLUMNS), "as is")
        return conversions | ({"timestamp": "millis"} if kind == "long" and logical_type is None else {})
    if kind in ("float", "double"):
        return dict.fromkeys(_FLOATING_COLUMNS if kind == "float" else ("double",), "as is")
    if kind in ("string", "enum"):
        return {"string": "as is"} | ({"timestamp": "text"} if kind == "string" else {})
    return {"boolean": {"boolean": "as is"}, "bytes": {"string": "as is"}}.get(kind, {})


def _strip_logical_type(type_: Mapping[str, Any], logical_type: str | None) -> Any:
    """The type for a projection: without its logical type, which a decoder might interpret."""
    kind = type_["type"]
    if logical_type == "decimal" or kind in ("enum", "fixed"):
        return {name: value for name, value in type_.items() if name not in ("aliases", "doc", "namespace")}
    return kind


def projected_schema(record: AvroRecordSchema, mappings: Iterable[SchemaColumnMapping]) -> str:
    """The schema of the part of a record which is read."""
    defined_names: set[str] = set()
    fields = {mapping.field.name: mapping.field for mapping in mappings if isinstance(mapping.field, AvroField)}
    projected_fields = [{"name": name, "type": _field_type(field, defined_names)} for name, field in fields.items()]
    return json.dumps({"type": "record", "name": record.name, "fields": projected_fields})


def _field_type(field: AvroField, defined_names: set[str]) -> Any:
    type_ = field.type
    name = type_.get("name") if isinstance(type_, dict) else None
    if name is not None:
        type_ = name if name in defined_names else type_
        defined_names.add(name)
    return ["null", type_] if field.is_optional else type_


def to_registered_schema(version: int, text: str) -> RegisteredSchema:
    """The columns of a registered record, for a stream that declares no schema."""
    fields = parse_record_schema(text).fields.values()
    return RegisteredSchema(version, tuple(map(_to_column, fields)))


def _to_column(field: AvroField) -> RegisteredColumn:
    preferred_type = next(iter(field.conversions), None)
    if preferred_type is None or field.type_name == "bytes":
        raise AvroSchemaError(
            f"Field {field.name!r} of the registered schema is {field.type_name}, and a column is a single value of "
            'string, boolean, a number or a time. Name the columns you want: schema="…".'
        )
    spark_type = _COLUMN_TYPES.get(field.type_name, preferred_type)
    default = _column_default(field, spark_type)
    return RegisteredColumn(
        field.name, spark_type, default, field.aliases, not (field.is_optional or field.has_default)
    )


def _column_default(field: AvroField, spark_type: str) -> str | float | bool | None:
    if spark_type == "timestamp" and isinstance(field.default, int):
        return to_datetime(int(field.default * US_PER_UNIT[field.conversions["timestamp"]])).isoformat()
    default: str | float | bool | None = field.default
    return default


def reader_incompatibilities(
    schema: Schema, needed: Iterable[str], reader: AvroRecordSchema
) -> Iterator[ColumnProblem]:
    """What a reader would lack, or misread, in records with these columns, by Avro's rules of schema resolution."""
    columns = {column.name: column for column in schema}
    required_columns = set(needed)
    for field in reader.fields.values():
        column = next((columns[name] for name in (field.name, *field.aliases) if name in columns), None)
        if column is None:
            if not field.has_default:
                yield ColumnProblem(field.name, "it is not among the columns, and that version has no default for it")
            continue
        avro_type = _AVRO_TYPES[column.type]
        written_type = avro_type if isinstance(avro_type, str) else avro_type["type"]
        read_type = field.type["type"] if isinstance(field.type, dict) else field.type
        if read_type not in _PROMOTIONS[written_type]:
            yield ColumnProblem(
                field.name, f"the column is {column.type}, which that version does not read as {field.type_name}"
            )
        elif column.name not in required_columns and not field.is_optional:
            yield ColumnProblem(field.name, "the column may be null, and that version takes no null")


def to_avro_name(text: str) -> str:
    """A valid Avro name from any text.

    >>> to_avro_name("payments to the 2nd-house")
    'payments_to_the_2nd_house'
    """
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    return f"_{name}" if name[:1].isdigit() else name


def to_avro_schema(schema: Schema, needed: Iterable[str], name: str) -> str:
    """The Avro schema of columns: required ones are never null, the others default to null."""
    required_columns = set(needed)
    for column in schema:
        if to_avro_name(column.name) != column.name:
            raise AvroSchemaError(
                f"Column {column.name!r} has a name that Avro does not take. Leave it out with columns=."
            )
    fields = [
        {"name": column.name, "type": _AVRO_TYPES[column.type]}
        if column.name in required_columns
        else {"name": column.name, "type": ["null", _AVRO_TYPES[column.type]], "default": None}
        for column in schema
    ]
    return json.dumps({"type": "record", "name": name, "fields": fields})
