"""Protobuf messages as columns: protoc compiles their .proto, Python decodes their bytes.

payload  message indexes | fields            0 alone stands for the first message of the file
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import which
from typing import Any

import orjson
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from headrace.declare.streams.encoding import RegisteredColumn, RegisteredSchema
from headrace.errors import HeadraceError
from headrace.kafka.schema_registry.column_mapping import SchemaColumnMapping, SchemaField

PROTO_FILE = "schema.proto"
TIMESTAMP_MESSAGE = "google.protobuf.Timestamp"
_PROTOC_TIMEOUT_S = 120
_INTEGER_CONVERSIONS = dict.fromkeys(("bigint", "int", "smallint", "tinyint", "double", "float"), "as is")
_FLOAT_CONVERSIONS = dict.fromkeys(("double", "float"), "as is")
_CONVERSIONS_BY_TYPE: Mapping[int, Mapping[str, str]] = {
    FieldDescriptor.CPPTYPE_INT32: _INTEGER_CONVERSIONS,
    FieldDescriptor.CPPTYPE_UINT32: _INTEGER_CONVERSIONS,
    FieldDescriptor.CPPTYPE_INT64: _INTEGER_CONVERSIONS | {"timestamp": "millis"},
    FieldDescriptor.CPPTYPE_UINT64: _INTEGER_CONVERSIONS | {"timestamp": "millis"},
    FieldDescriptor.CPPTYPE_DOUBLE: {"double": "as is"},
    FieldDescriptor.CPPTYPE_FLOAT: _FLOAT_CONVERSIONS,
    FieldDescriptor.CPPTYPE_BOOL: {"boolean": "as is"},
    FieldDescriptor.CPPTYPE_ENUM: {"string": "enum"},
}
_TEXT_CONVERSIONS = {"string": "as is", "timestamp": "text"}
_NARROW_COLUMN_TYPES = {FieldDescriptor.CPPTYPE_INT32: "int", FieldDescriptor.CPPTYPE_FLOAT: "float"}


class ProtobufSchemaError(HeadraceError):
    """A schema that no stream can be read with, or protoc is missing."""


class ProtobufDecodeError(HeadraceError):
    """Bytes that are not a message of their schema."""


@cache
def compile_schema(text: str) -> bytes:
    """The descriptor set of a .proto, compiled by protoc."""
    program = which("protoc") or which("protoc", path=str(Path(sys.executable).parent))
    if program is None:
        raise ProtobufSchemaError("protoc is not installed. Install it: pip install 'headrace[protobuf]'.")
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / PROTO_FILE, Path(folder) / "found"
        source.write_text(text)
        command = [program, f"-I{folder}", "--include_imports", f"--descriptor_set_out={output}", str(source)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=_PROTOC_TIMEOUT_S, check=False)
        if run.returncode:
            message = run.stderr.replace(f"{folder}/", "").strip()
            raise ProtobufSchemaError(f"protoc does not take the schema: {message[:300]}. Register a whole .proto.")
        return output.read_bytes()


@cache
def message_descriptor(descriptors: bytes, path: tuple[int, ...]) -> Descriptor:
    """The message at a path of the file: (0,) is its first, (0, 1) the second one within that."""
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    schema_file = pool.FindFileByName(PROTO_FILE)
    try:
        descriptor: Descriptor = [*schema_file.message_types_by_name.values()][path[0]]
        for index in path[1:]:
            descriptor = descriptor.nested_types[index]
    except IndexError as error:
        raise ProtobufDecodeError(f"the schema has no message at {list(path)}") from error
    return descriptor


def parse_fields(text: str) -> Mapping[str, SchemaField]:
    """The fields of the first message of a .proto."""
    return {field.name: _to_schema_field(field) for field in message_descriptor(compile_schema(text), (0,)).fields}


def to_registered_schema(version: int, text: str) -> RegisteredSchema:
    """The columns of the first message of a .proto, for a stream that declares no schema."""
    return RegisteredSchema(version, tuple(map(_to_column, message_descriptor(compile_schema(text), (0,)).fields)))


def _to_column(field: FieldDescriptor) -> RegisteredColumn:
    schema_field = _to_schema_field(field)
    if not schema_field.conversions:
        raise ProtobufSchemaError(
            f"Field {field.name!r} of the registered schema is {schema_field.type_name}, and a column is a "
            f"single value of "
            'string, boolean, a number or a time. Name the columns you want: schema="…".'
        )
    return RegisteredColumn(field.name, _NARROW_COLUMN_TYPES.get(field.cpp_type, next(iter(schema_field.conversions))))


def _to_schema_field(field: FieldDescriptor) -> SchemaField:
    if field.is_repeated:
        return SchemaField(field.name, "repeated", {})
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        is_time = field.message_type.full_name == TIMESTAMP_MESSAGE
        return SchemaField(field.name, field.message_type.full_name, {"timestamp": "message"} if is_time else {})
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        is_text = field.type == FieldDescriptor.TYPE_STRING
        return SchemaField(
            field.name, "string" if is_text else "bytes", {"string": "as is", "timestamp": "text"} if is_text else {}
        )
    return SchemaField(field.name, _TYPE_NAMES[field.type], _CONVERSIONS_BY_TYPE[field.cpp_type])


_TYPE_NAMES = {
    number: name.removeprefix("TYPE_").lower() for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
}


@dataclass(frozen=True)
class ProtobufReader:
    """Decodes messages of one schema to JSON of a stream's columns; a plain value that can be serialized."""

    descriptors: bytes
    fields: tuple[tuple[str, str, str], ...]  # the column, its field, and the conversion

    def to_json(self, payload: bytes) -> bytes:
        """The JSON of a payload: message indexes, then the message."""
        path, rest = split_message_indexes(payload)
        message_class = _message_class(self.descriptors, path)
        try:
            message = message_class.FromString(rest)
        except DecodeError as error:
            raise ProtobufDecodeError("the bytes are no such message") from error
        return orjson.dumps(
            {column: _field_value(message, field, conversion) for column, field, conversion in self.fields}
        )


def create_reader(
    text: str, mappings: Iterator[SchemaColumnMapping] | tuple[SchemaColumnMapping, ...]
) -> ProtobufReader:
    """Create the reader of a .proto's messages as these columns."""
    fields = tuple(
        (mapping.column.name, mapping.field.name, mapping.conversion)
        for mapping in mappings
        if mapping.field is not None
    )
    return ProtobufReader(compile_schema(text), fields)


@cache
def _message_class(descriptors: bytes, path: tuple[int, ...]) -> type[Message]:
    message_class: type[Message] = message_factory.GetMessageClass(message_descriptor(descriptors, path))
    return message_class


def split_message_indexes(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """The path of the message in its file, and the message itself.

    >>> split_message_indexes(bytes([0, 8, 1])), split_message_indexes(bytes([4, 2, 0, 8, 1]))
    (((0,), b'\\x08\\x01'), ((1, 0), b'\\x08\\x01'))
    """
    count, position = _read_zigzag_varint(payload, 0)
    if count == 0:
        return (0,), payload[position:]
    if not 0 < count <= 100:
        raise ProtobufDecodeError(f"{count} message indexes")
    path = []
    for _ in range(count):
        index, position = _read_zigzag_varint(payload, position)
        path.append(index)
    if min(path) < 0:
        raise ProtobufDecodeError(f"the schema has no message at {path}")
    return tuple(path), payload[position:]


def _read_zigzag_varint(payload: bytes, start: int) -> tuple[int, int]:
    number = shift = 0
    for position in range(start, min(start + 5, len(payload))):
        number |= (payload[position] & 0x7F) << shift
        if payload[position] < 0x80:
            return (number >> 1) ^ -(number & 1), position + 1
        shift += 7
    raise ProtobufDecodeError("its message indexes are cut short")


def _field_value(message: Message, field: str, conversion: str) -> Any:
    """A field as JSON; null where it is optional and absent."""
    descriptor = message.DESCRIPTOR.fields_by_name.get(field)
    if descriptor is None or (descriptor.has_presence and not message.HasField(field)):
        return None
    return _JSON_CONVERTERS.get(conversion, _number_or_text)(getattr(message, field), descriptor)


def _number_or_text(value: Any, _: FieldDescriptor) -> Any:
    is_real = isinstance(value, float)
    return value if not is_real or value - value == 0 else "NaN" if value != value else f"{'-' * (value < 0)}Infinity"  # noqa: PLR0124


def _enum_name(value: Any, descriptor: FieldDescriptor) -> Any:
    enum_value = descriptor.enum_type.values_by_number.get(value)
    return str(value) if enum_value is None else enum_value.name


def _timestamp_text(value: Any, _: FieldDescriptor) -> Any:
    return value.ToJsonString()


_JSON_CONVERTERS: Mapping[str, Callable[[Any, FieldDescriptor], Any]] = {"enum": _enum_name, "message": _timestamp_text}
