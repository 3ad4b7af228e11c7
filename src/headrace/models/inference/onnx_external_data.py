"""Finds ONNX tensors that are stored in other files, before onnxruntime opens any.

A model names the file of such a tensor, so an untrusted model could read any file of this machine.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from headrace.errors import HeadraceError

# Fields of onnx.proto3 by the message they are in: the type of each nested message.
SubmessageFields = Mapping[int, str]
SUBMESSAGES: Mapping[str, SubmessageFields] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
TENSOR_NAME, TENSOR_EXTERNAL_DATA, TENSOR_DATA_LOCATION = 8, 13, 14
MAX_VARINT_BYTES = 10


class WireType(IntEnum):
    """The encoding of a field's value."""

    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


FIXED_BYTES = {WireType.FIXED64: 8, WireType.FIXED32: 4}


class InvalidProtobufError(HeadraceError):
    """Bytes that are not a message of Protocol Buffers."""


class ProtobufField(NamedTuple):
    """A field of a message: its number, and its value as a number or as bytes."""

    number: int
    value: int | memoryview


def find_external_tensor(content: bytes) -> str | None:
    """The name of a tensor that is stored in another file, anywhere in the model; None where there is none."""
    messages = [("model", memoryview(content))]
    while messages:
        kind, message = messages.pop()
        fields = list(_parse_fields(message))
        if kind == "tensor" and any(_is_external(field) for field in fields):
            return _tensor_name(fields)
        for field in fields:
            inner_kind = SUBMESSAGES[kind].get(field.number)
            if inner_kind is not None and isinstance(field.value, memoryview):
                messages.append((inner_kind, field.value))
    return None


def _is_external(field: ProtobufField) -> bool:
    return field.number == TENSOR_EXTERNAL_DATA or (field.number == TENSOR_DATA_LOCATION and field.value != 0)


def _tensor_name(fields: list[ProtobufField]) -> str:
    names = [field.value for field in fields if field.number == TENSOR_NAME and isinstance(field.value, memoryview)]
    return bytes(names[-1][:80]).decode(errors="replace") if names else ""


def _parse_fields(message: memoryview) -> Iterator[ProtobufField]:
    position = 0
    while position < len(message):
        tag, position = _parse_varint(message, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == WireType.VARINT:
            value, position = _parse_varint(message, position)
            yield ProtobufField(number, value)
            continue
        if wire_type == WireType.BYTES:
            size, position = _parse_varint(message, position)
        elif wire_type in FIXED_BYTES:
            size = FIXED_BYTES[WireType(wire_type)]
        else:
            raise InvalidProtobufError(f"field {number} is of wire type {wire_type}")
        if position + size > len(message):
            raise InvalidProtobufError(f"field {number} is cut off")
        yield ProtobufField(number, message[position : position + size])
        position += size


def _parse_varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for index in range(MAX_VARINT_BYTES):
        if position + index >= len(message):
            break
        byte = message[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise InvalidProtobufError("a number is cut off")
