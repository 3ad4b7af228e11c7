"""Avro's schemas: their fields as columns, and the part of one that a stream reads.

    writer  {id: string, amount: float, at: long (timestamp-millis), address: {…}}
    columns  id string, amount double, at timestamp
    part    {id: string, amount: float, at: long}          address is passed over, never built

A part keeps the writer's own types without their logical ones, so nothing is left to how a decoder takes a unit: a
float that is a double column is widened, and a long that is a time is scaled, by us.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.declare.encoded import Column, Subject
from headrace.declare.schema import Schema
from headrace.errors import HeadraceError
from headrace.log.schemas.readings import Break, Field, Reading
from headrace.tiles.finish import moment

TIMES = {f"{local}timestamp-{unit}": unit for local in ("", "local-") for unit in ("millis", "micros", "nanos")}
US_IN = {"millis": 1000.0, "micros": 1.0, "nanos": 0.001}
_WHOLE = {"int": ("bigint", "int", "smallint", "tinyint"), "long": ("bigint",)}
_WIDER = ("double", "float")
_COLUMNS = {"int": "int", "long": "bigint", "float": "float", "double": "double", "boolean": "boolean"}
_AVRO: Mapping[str, str | Mapping[str, str]] = {
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

_PROMOTED = {
    "string": ("string", "bytes"),
    "boolean": ("boolean",),
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "double": ("double",),
}


class NotAvro(HeadraceError):
    """A schema that no stream can be read with."""


@dataclass(frozen=True)
class AvroField(Field):
    """A field of an Avro record: the type that is read, and whether it may be null."""

    type: Any
    is_optional: bool
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None


@dataclass(frozen=True)
class AvroRecord:
    """A record's full name and its fields."""

    name: str
    fields: Mapping[str, AvroField]


def record_of(text: str) -> AvroRecord:
    """The record that an Avro schema describes."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotAvro(f"The schema is not JSON: {error}. Register an Avro schema.") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise NotAvro("The schema is no Avro record. Events are records: register one.")
    try:
        return _record(schema)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotAvro(f"The schema is no Avro record: {type(error).__name__} {error}. Register a valid one.") from error


def _record(schema: Mapping[str, Any]) -> AvroRecord:
    name = _full_name(schema, "")
    space = name.rpartition(".")[0]
    names: dict[str, Any] = {}
    _collect(schema, space, names)
    fields = (_field(field, space, names) for field in schema["fields"])
    return AvroRecord(name, {field.name: field for field in fields})


def _full_name(schema: Mapping[str, Any], space: str) -> str:
    name = str(schema["name"])
    within = schema.get("namespace") or space
    return name if "." in name or not within else f"{within}.{name}"


def _collect(schema: Any, space: str, names: dict[str, Any], within: frozenset[str] = frozenset()) -> None:
    """Every type that has a name, for where it is only named; one that contains itself could nest without end."""
    if isinstance(schema, str):
        if schema in within or f"{space}.{schema}" in within:
            raise NotAvro(f"Type {schema!r} contains itself, and a few bytes could nest without end. Leave it out.")
    elif isinstance(schema, list):
        for one in schema:
            _collect(one, space, names, within)
    elif isinstance(schema, dict):
        if schema.get("type") in ("record", "enum", "fixed", "error"):
            full = _full_name(schema, space)
            _require_names(full, *schema.get("symbols", ()))
            names[full], space, within = schema | {"name": full}, full.rpartition(".")[0], within | {full}
        inner = [schema.get("type"), schema.get("items"), schema.get("values")]
        for one in [*inner, *(field["type"] for field in schema.get("fields", ()))]:
            _collect(one, space, names, within)


def _require_names(full: str, *symbols: str) -> None:
    """Refuse what Avro's own parser would: a name, or a symbol, that is none."""
    for name in (*full.split("."), *symbols):
        if record_name(name) != name or not name:
            raise NotAvro(f"{name!r} is no name in Avro. Register a valid schema.")


def _field(field: Mapping[str, Any], space: str, names: Mapping[str, Any]) -> AvroField:
    _require_names(field["name"])
    written = field["type"]
    branches = written if isinstance(written, list) else [written]
    others = [_resolved(one, space, names) for one in branches if one != "null"]
    is_optional = len(others) < len(branches)
    type_ = others[0] if len(others) == 1 else {"type": "union"}
    kind, logical = type_["type"], type_.get("logicalType")
    return AvroField(
        name=str(field["name"]),
        called=f"{kind} ({logical})" if logical else "a union of several types" if kind == "union" else kind,
        fits=_fits(kind, logical),
        type=_plain(type_, logical),
        is_optional=is_optional,
        aliases=tuple(field.get("aliases", ())),
        has_default="default" in field,
        default=field.get("default"),
    )


def _resolved(written: Any, space: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """A type as an object, also where it is only a name."""
    if isinstance(written, str):
        named = names.get(written) or names.get(f"{space}.{written}")
        return named if named is not None else {"type": written}
    if isinstance(written["type"], dict):
        return _resolved(written["type"], space, names)
    if written["type"] in ("enum", "fixed", "record"):
        return dict(written) | {"name": _full_name(written, space)}
    return dict(written)


def _fits(kind: str, logical: str | None) -> dict[str, str]:
    """The columns a field can be, the likeliest first, and how."""
    if kind == "long" and logical in TIMES:
        return {"timestamp": TIMES[logical], "bigint": "as is"}
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return dict.fromkeys(_WIDER, "as is")
    if kind in _WHOLE:
        whole = dict.fromkeys((*_WHOLE[kind], *_WIDER), "as is")
        return whole | ({"timestamp": "millis"} if kind == "long" and logical is None else {})
    if kind in ("float", "double"):
        return dict.fromkeys(_WIDER if kind == "float" else ("double",), "as is")
    if kind in ("string", "enum"):
        return {"string": "as is"} | ({"timestamp": "text"} if kind == "string" else {})
    return {"boolean": {"boolean": "as is"}, "bytes": {"string": "as is"}}.get(kind, {})


def _plain(type_: Mapping[str, Any], logical: str | None) -> Any:
    """The type as a part names it: without what a decoder might make of its values."""
    kind = type_["type"]
    if logical == "decimal" or kind in ("enum", "fixed"):
        return {name: value for name, value in type_.items() if name not in ("aliases", "doc", "namespace")}
    return kind


def part_of(record: AvroRecord, found: Iterable[Reading]) -> str:
    """The schema of that part of a record which is read."""
    defined: set[str] = set()
    fields = {one.field.name: one.field for one in found if isinstance(one.field, AvroField)}
    parts = [{"name": name, "type": _defined_once(field, defined)} for name, field in fields.items()]
    return json.dumps({"type": "record", "name": record.name, "fields": parts})


def _defined_once(field: AvroField, defined: set[str]) -> Any:
    type_ = field.type
    name = type_.get("name") if isinstance(type_, dict) else None
    if name is not None:
        type_ = name if name in defined else type_
        defined.add(name)
    return ["null", type_] if field.is_optional else type_


def subject_of(version: int, text: str) -> Subject:
    """The columns of a registered record, for a stream that leaves its schema out."""
    fields = record_of(text).fields.values()
    return Subject(version, tuple(map(_column, fields)))


def _column(field: AvroField) -> Column:
    logical_first = next(iter(field.fits), None)
    if logical_first is None or field.called == "bytes":
        raise NotAvro(
            f"Field {field.name!r} of the registered schema is {field.called}, and a column is a single value of "
            'string, boolean, a number or a time. Name the columns you want: schema="…".'
        )
    spark_type = _COLUMNS.get(field.called, logical_first)
    default = _default(field, spark_type)
    return Column(field.name, spark_type, default, field.aliases, not (field.is_optional or field.has_default))


def _default(field: AvroField, spark_type: str) -> str | float | bool | None:
    if spark_type == "timestamp" and isinstance(field.default, int):
        return moment(int(field.default * US_IN[field.fits["timestamp"]])).isoformat()
    default: str | float | bool | None = field.default
    return default


def unread_by(schema: Schema, needed: Iterable[str], reader: AvroRecord) -> Iterator[Break]:
    """What a reader would miss, or misread, in records that have these columns, by Avro's rules of resolution."""
    columns = {column.name: column for column in schema}
    always = set(needed)
    for field in reader.fields.values():
        column = next((columns[name] for name in (field.name, *field.aliases) if name in columns), None)
        if column is None:
            if not field.has_default:
                yield Break(field.name, "it is not among the columns, and that version has no default for it")
            continue
        written = _AVRO[column.type]
        kind = written if isinstance(written, str) else written["type"]
        read = field.type["type"] if isinstance(field.type, dict) else field.type
        if read not in _PROMOTED[kind]:
            yield Break(field.name, f"the column is {column.type}, which that version does not read as {field.called}")
        elif column.name not in always and not field.is_optional:
            yield Break(field.name, "the column may be null, and that version takes no null")


def record_name(text: str) -> str:
    """A name that Avro takes, made of another.

    >>> record_name("payments to the 2nd-house")
    'payments_to_the_2nd_house'
    """
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    return f"_{name}" if name[:1].isdigit() else name


def schema_text(schema: Schema, needed: Iterable[str], name: str) -> str:
    """The Avro schema of columns: those that are needed are never null, the others are unless they are there."""
    always = set(needed)
    for column in schema:
        if record_name(column.name) != column.name:
            raise NotAvro(f"Column {column.name!r} has a name that Avro does not take. Leave it out with columns=.")
    fields = [
        {"name": column.name, "type": _AVRO[column.type]}
        if column.name in always
        else {"name": column.name, "type": ["null", _AVRO[column.type]], "default": None}
        for column in schema
    ]
    return json.dumps({"type": "record", "name": name, "fields": fields})
