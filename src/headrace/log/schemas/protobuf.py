"""Protobuf's messages as columns: their .proto is compiled by protoc, their bytes are read in Python.

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

from headrace.declare.encoded import Column, Subject
from headrace.errors import HeadraceError
from headrace.log.schemas.readings import Field, Reading

FILE = "schema.proto"
TIMESTAMP = "google.protobuf.Timestamp"
_LIMIT_S = 120
_WHOLE = dict.fromkeys(("bigint", "int", "smallint", "tinyint", "double", "float"), "as is")
_REAL = dict.fromkeys(("double", "float"), "as is")
_FITS: Mapping[int, Mapping[str, str]] = {
    FieldDescriptor.CPPTYPE_INT32: _WHOLE,
    FieldDescriptor.CPPTYPE_UINT32: _WHOLE,
    FieldDescriptor.CPPTYPE_INT64: _WHOLE | {"timestamp": "millis"},
    FieldDescriptor.CPPTYPE_UINT64: _WHOLE | {"timestamp": "millis"},
    FieldDescriptor.CPPTYPE_DOUBLE: {"double": "as is"},
    FieldDescriptor.CPPTYPE_FLOAT: _REAL,
    FieldDescriptor.CPPTYPE_BOOL: {"boolean": "as is"},
    FieldDescriptor.CPPTYPE_ENUM: {"string": "enum"},
}
_TEXT = {"string": "as is", "timestamp": "text"}
_NARROW = {FieldDescriptor.CPPTYPE_INT32: "int", FieldDescriptor.CPPTYPE_FLOAT: "float"}


class NotProtobuf(HeadraceError):
    """A schema that no stream can be read with, or protoc is missing."""


class Undecodable(HeadraceError):
    """Bytes that are no message of their schema."""


@cache
def compiled(text: str) -> bytes:
    """The descriptor set of a .proto: what protoc makes of it."""
    program = which("protoc") or which("protoc", path=str(Path(sys.executable).parent))
    if program is None:
        raise NotProtobuf("protoc is not installed. Install it: pip install 'headrace[protobuf]'.")
    with tempfile.TemporaryDirectory() as folder:
        source, found = Path(folder) / FILE, Path(folder) / "found"
        source.write_text(text)
        command = [program, f"-I{folder}", "--include_imports", f"--descriptor_set_out={found}", str(source)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        if run.returncode:
            said = run.stderr.replace(f"{folder}/", "").strip()
            raise NotProtobuf(f"protoc does not take the schema: {said[:300]}. Register a whole .proto.")
        return found.read_bytes()


@cache
def message_at(descriptors: bytes, path: tuple[int, ...]) -> Descriptor:
    """The message at a place of the file: (0,) is its first, (0, 1) the second one within that."""
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    own = pool.FindFileByName(FILE)
    try:
        found: Descriptor = [*own.message_types_by_name.values()][path[0]]
        for index in path[1:]:
            found = found.nested_types[index]
    except IndexError as error:
        raise Undecodable(f"the schema has no message at {list(path)}") from error
    return found


def fields_of(text: str) -> Mapping[str, Field]:
    """The fields of the first message of a .proto."""
    return {field.name: _field(field) for field in message_at(compiled(text), (0,)).fields}


def subject_of(version: int, text: str) -> Subject:
    """The columns of the first message of a .proto, for a stream that leaves its schema out."""
    return Subject(version, tuple(map(_column, message_at(compiled(text), (0,)).fields)))


def _column(field: FieldDescriptor) -> Column:
    known = _field(field)
    if not known.fits:
        raise NotProtobuf(
            f"Field {field.name!r} of the registered schema is {known.called}, and a column is a single value of "
            'string, boolean, a number or a time. Name the columns you want: schema="…".'
        )
    return Column(field.name, _NARROW.get(field.cpp_type, next(iter(known.fits))))


def _field(field: FieldDescriptor) -> Field:
    if field.is_repeated:
        return Field(field.name, "repeated", {})
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        is_time = field.message_type.full_name == TIMESTAMP
        return Field(field.name, field.message_type.full_name, {"timestamp": "message"} if is_time else {})
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        is_text = field.type == FieldDescriptor.TYPE_STRING
        return Field(
            field.name, "string" if is_text else "bytes", {"string": "as is", "timestamp": "text"} if is_text else {}
        )
    return Field(field.name, _NAMES[field.type], _FITS[field.cpp_type])


_NAMES = {
    number: name.removeprefix("TYPE_").lower() for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
}


@dataclass(frozen=True)
class ProtoReader:
    """Reads messages of one schema as JSON of a stream's columns; a plain value, so that it can be sent about."""

    descriptors: bytes
    fields: tuple[tuple[str, str, str], ...]  # the column, its field, and how that is read

    def json(self, payload: bytes) -> bytes:
        """The JSON of a payload: message indexes, then the message."""
        path, rest = indexes(payload)
        kind = _class_of(self.descriptors, path)
        try:
            message = kind.FromString(rest)
        except DecodeError as error:
            raise Undecodable("the bytes are no such message") from error
        return orjson.dumps({column: _value(message, field, how) for column, field, how in self.fields})


def reader_of(text: str, found: Iterator[Reading] | tuple[Reading, ...]) -> ProtoReader:
    """Who reads the messages of a .proto as these columns."""
    fields = tuple((one.column.name, one.field.name, one.how) for one in found if one.field is not None)
    return ProtoReader(compiled(text), fields)


@cache
def _class_of(descriptors: bytes, path: tuple[int, ...]) -> type[Message]:
    found: type[Message] = message_factory.GetMessageClass(message_at(descriptors, path))
    return found


def indexes(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """Where the message stands in its file, and the message itself.

    >>> indexes(bytes([0, 8, 1])), indexes(bytes([4, 2, 0, 8, 1]))
    (((0,), b'\\x08\\x01'), ((1, 0), b'\\x08\\x01'))
    """
    count, at = _zigzag(payload, 0)
    if count == 0:
        return (0,), payload[at:]
    if not 0 < count <= 100:
        raise Undecodable(f"{count} message indexes")
    path = []
    for _ in range(count):
        index, at = _zigzag(payload, at)
        path.append(index)
    if min(path) < 0:
        raise Undecodable(f"the schema has no message at {path}")
    return tuple(path), payload[at:]


def _zigzag(payload: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    for place in range(at, min(at + 5, len(payload))):
        number |= (payload[place] & 0x7F) << shift
        if payload[place] < 0x80:
            return (number >> 1) ^ -(number & 1), place + 1
        shift += 7
    raise Undecodable("its message indexes are cut short")


def _value(message: Message, field: str, how: str) -> Any:
    """A field as JSON has it; null where it can be absent and is."""
    kind = message.DESCRIPTOR.fields_by_name.get(field)
    if kind is None or (kind.has_presence and not message.HasField(field)):
        return None
    return _AS_JSON.get(how, _as_is)(getattr(message, field), kind)


def _as_is(value: Any, _: FieldDescriptor) -> Any:
    is_real = isinstance(value, float)
    return value if not is_real or value - value == 0 else "NaN" if value != value else f"{'-' * (value < 0)}Infinity"  # noqa: PLR0124


def _enum(value: Any, kind: FieldDescriptor) -> Any:
    known = kind.enum_type.values_by_number.get(value)
    return str(value) if known is None else known.name


def _moment(value: Any, _: FieldDescriptor) -> Any:
    return value.ToJsonString()


_AS_JSON: Mapping[str, Callable[[Any, FieldDescriptor], Any]] = {"enum": _enum, "message": _moment}
