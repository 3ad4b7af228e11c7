"""ONNX models whose tensors are kept in other files: found in the bytes of the model, before onnxruntime opens any.

A model names the file of such a tensor, so one that somebody else made could have any file of this machine read.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from headrace.errors import HeadraceError

# Fields of onnx.proto3 by the message they are in: which message each holds.
Fields = Mapping[int, str]
MESSAGES: Mapping[str, Fields] = {
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
LONGEST_VARINT = 10


class WireType(IntEnum):
    """How the value of a field is written."""

    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


FIXED_BYTES = {WireType.FIXED64: 8, WireType.FIXED32: 4}


class UnreadableModel(HeadraceError):
    """Bytes that are no message of Protocol Buffers."""


class Field(NamedTuple):
    """A field of a message: its number, and its value as a number or as bytes."""

    number: int
    value: int | memoryview


def external_tensor(content: bytes) -> str | None:
    """The name of a tensor that is kept in another file, wherever in the model it is; None where there is none."""
    messages = [("model", memoryview(content))]
    while messages:
        kind, message = messages.pop()
        fields = list(_fields(message))
        if kind == "tensor" and any(_is_external(field) for field in fields):
            return _name(fields)
        for field in fields:
            inner = MESSAGES[kind].get(field.number)
            if inner is not None and isinstance(field.value, memoryview):
                messages.append((inner, field.value))
    return None


def _is_external(field: Field) -> bool:
    return field.number == TENSOR_EXTERNAL_DATA or (field.number == TENSOR_DATA_LOCATION and field.value != 0)


def _name(fields: list[Field]) -> str:
    names = [one.value for one in fields if one.number == TENSOR_NAME and isinstance(one.value, memoryview)]
    return bytes(names[-1][:80]).decode(errors="replace") if names else ""


def _fields(message: memoryview) -> Iterator[Field]:
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == WireType.VARINT:
            value, at = _varint(message, at)
            yield Field(number, value)
            continue
        if wire == WireType.BYTES:
            size, at = _varint(message, at)
        elif wire in FIXED_BYTES:
            size = FIXED_BYTES[WireType(wire)]
        else:
            raise UnreadableModel(f"field {number} is of wire type {wire}")
        if at + size > len(message):
            raise UnreadableModel(f"field {number} is cut off")
        yield Field(number, message[at : at + size])
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place in range(LONGEST_VARINT):
        if at + place >= len(message):
            break
        byte = message[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise UnreadableModel("a number is cut off")
