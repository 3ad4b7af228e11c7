"""The columns that a registered schema supplies, in each format, and the errors for those it does not."""

import json
from typing import Any

import pytest

import headrace as hr
from headrace.declare.streams.encoding import Format, use_schema_lookup
from headrace.declare.streams.schema import KIND_OF_TYPE
from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.kafka.schema_registry.avro import (
    parse_record_schema,
    projected_schema,
    reader_incompatibilities,
    to_avro_name,
    to_avro_schema,
)
from headrace.kafka.schema_registry.column_mapping import ColumnProblem, SchemaColumnMapping, map_columns
from headrace.kafka.schema_registry.formats import readable_schemas, schema_fields, to_registered_schema
from headrace.kafka.schema_registry.known_schemas import KnownSchemas
from headrace.kafka.schema_registry.registry_client import SCHEMA_TYPES, SchemaDefinition
from tests.kafka.avro import field, logical, optional, schema

BASE = (field("id", "string"), field("card", "string"), field("at", logical("timestamp-micros")))
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Tap {
  string id = 1; string card = 2; google.protobuf.Timestamp at = 3; int32 n = 4; float x = 5; bytes raw = 6;
  repeated string tags = 7;
}
"""


def stream(columns: str, format_: Format = "avro") -> Stream:
    registry = "http://127.0.0.1:1"
    return hr.Stream("taps", schema=columns, id="id", key="card", time="at", format=format_, registry=registry)


def read(columns: str, text: str, format_: Format = "avro") -> list[SchemaColumnMapping | ColumnProblem]:
    declared = stream(f"id string, card string, at timestamp, {columns}", format_)
    return map_columns(declared, schema_fields(declared, SchemaDefinition(1, SCHEMA_TYPES[format_], text)))[3:]


@pytest.mark.parametrize(
    ("type_", "fits"),
    [
        ("int", "bigint int smallint tinyint double float"),
        ("long", "bigint double float timestamp"),
        ("float", "double float"),
        ("double", "double"),
        ("boolean", "boolean"),
        ("string", "string timestamp"),
        ("bytes", "string"),
        (logical("uuid", "string"), "string timestamp"),
        (logical("timestamp-nanos"), "timestamp bigint"),
        (logical("decimal", "bytes", precision=9, scale=2), "double float"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "fixed", "name": "F", "size": 4}, ""),
        ({"type": "array", "items": "int"}, ""),
        ({"type": "map", "values": "int"}, ""),
        (["int", "string"], ""),
        ({"type": "record", "name": "R", "fields": [field("a", "int")]}, ""),
    ],
)
def test_each_type_of_avro_gives_the_columns_that_hold_it(type_: Any, fits: str) -> None:
    for written in (type_, ["null", *type_] if isinstance(type_, list) else ["null", type_]):
        record = parse_record_schema(schema(*BASE, field("x", written), name="Tap"))
        assert set(record.fields["x"].conversions) == set(fits.split())
    found = {kind: read(f"x {kind}", schema(*BASE, field("x", type_), name="Tap"))[0] for kind in KIND_OF_TYPE}
    assert {kind for kind, one in found.items() if isinstance(one, SchemaColumnMapping)} == set(fits.split())
    assert all(one.column == "x" for one in found.values() if isinstance(one, ColumnProblem))


def test_a_type_that_is_only_named_is_found_and_defined_once() -> None:
    enum = {"type": "enum", "name": "Colour", "symbols": ["RED"]}
    text = schema(*BASE, field("a", enum), optional("b", "Colour"), field("c", "shop.Colour"))
    found = [one for one in read("a string, b string, c string", text) if isinstance(one, SchemaColumnMapping)]
    part = json.loads(projected_schema(parse_record_schema(text), found))
    kinds = [one["type"] for one in part["fields"]]
    assert kinds == [
        {"type": "enum", "name": "shop.Colour", "symbols": ["RED"]},
        ["null", "shop.Colour"],
        "shop.Colour",
    ]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '"string"', '{"type": "record"}', '{"type": "record", "name": "R", "fields": [1]}']
)
def test_what_is_no_record_is_said_and_breaks_nothing(text: str) -> None:
    declared = stream("id string, card string, at timestamp")
    readable, unfit = readable_schemas(declared, KnownSchemas({1: SchemaDefinition(1, "AVRO", text)}))
    assert readable == {}
    assert "The schema" in unfit[1]


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (field("next", ["null", "Payment"]), "Type 'Payment' contains itself"),
        (field("next", {"type": "array", "items": "shop.Payment"}), "contains itself"),
        (field("a b", "int"), "'a b' is no name"),
        (field("e", {"type": "enum", "name": "E", "symbols": ["A", "not so"]}), "'not so' is no name"),
        (field("r", {"type": "record", "name": "1st", "fields": []}), "'1st' is no name"),
    ],
)
def test_what_could_nest_without_end_or_has_no_name_is_not_decoded(odd: dict[str, Any], said: str) -> None:
    with pytest.raises(HeadraceError, match=said):
        parse_record_schema(schema(*BASE, odd))


def test_readers_with_a_version_are_asked_by_avros_rules() -> None:
    columns = stream("id string, card string, at timestamp, n int, x double").schema
    needed = ("id", "card", "at")

    def missed(*fields: dict[str, Any]) -> list[str]:
        return [one.column for one in reader_incompatibilities(columns, needed, parse_record_schema(schema(*fields)))]

    assert missed(*BASE) == []
    assert missed(*BASE, optional("n", "long"), optional("x", "double"), optional("new", "string")) == []
    assert missed(*BASE, field("n", "int")) == ["n"]
    assert missed(*BASE, optional("x", "float")) == ["x"]
    assert missed(*BASE, field("new", "string")) == ["new"]
    assert missed(field("name", "string", aliases=["id"])) == []


def test_columns_become_a_schema_that_reads_them() -> None:
    declared = stream("id string, card string, at timestamp, n tinyint, x float, ok boolean")
    text = to_avro_schema(declared.schema, declared.required_columns.values(), to_avro_name("2 taps"))
    assert not [
        one for one in map_columns(declared, parse_record_schema(text).fields) if isinstance(one, ColumnProblem)
    ]
    assert parse_record_schema(text).name == "_2_taps"
    with pytest.raises(HeadraceError, match="has a name that Avro does not take"):
        to_avro_schema(stream("id string, card string, at timestamp, `a b` string").schema, [], "taps")


def test_protobuf_and_json_schema_give_columns_too() -> None:
    kinds = [
        type(one).__name__ for one in read("n bigint, x double, raw string, tags string, new string", PROTO, "protobuf")
    ]
    assert kinds == [
        "SchemaColumnMapping",
        "SchemaColumnMapping",
        "ColumnProblem",
        "ColumnProblem",
        "SchemaColumnMapping",
    ]
    properties = {"id": {"type": "string"}, "n": {"type": ["null", "integer"]}, "deep": {"type": "object"}}
    text = json.dumps({"type": "object", "properties": properties})
    kinds = [type(one).__name__ for one in read("n bigint, deep string, new string", text, "json")]
    assert kinds == ["SchemaColumnMapping", "ColumnProblem", "SchemaColumnMapping"]


@pytest.mark.parametrize(
    ("format_", "text", "said"),
    [
        ("avro", schema(*BASE, field("tags", {"type": "array", "items": "string"})), "Field 'tags'"),
        ("protobuf", PROTO, "Field 'raw'"),
        ("protobuf", "message {", "protoc does not take the schema"),
        ("json", '{"type": "object", "properties": {"deep": {"type": "object"}}}', "Property 'deep'"),
        ("json", "[]", "no JSON object"),
    ],
)
def test_columns_that_cannot_be_taken_from_a_subject_are_named(format_: Format, text: str, said: str) -> None:
    encoded = stream("id string, card string, at timestamp", format_).encoding
    assert encoded is not None
    with pytest.raises(HeadraceError, match=said):
        to_registered_schema(encoded, 1, SchemaDefinition(1, SCHEMA_TYPES[format_], text))


def test_a_schema_that_is_left_out_is_asked_of_who_loads_the_app() -> None:
    with pytest.raises(hr.DeclarationError, match="schema= is missing"):
        hr.Stream("taps", id="id", key="card", time="at")
    with pytest.raises(hr.DeclarationError, match="no registry lookup for"):
        hr.Stream("taps", id="id", key="card", time="at", format="avro", registry="http://x")
    time = {"type": "string", "format": "date-time"}
    properties = {"id": {"type": "string"}, "card": {"type": "integer"}, "at": time}
    text = json.dumps({"type": "object", "properties": properties})
    with use_schema_lookup(lambda encoded: to_registered_schema(encoded, 3, SchemaDefinition(1, "JSON", text))):
        found = hr.Stream("taps", id="id", key="card", time="at", registry="http://x")
    assert [(one.name, one.type) for one in found.schema] == [("id", "string"), ("card", "bigint"), ("at", "timestamp")]
