"""Tensors of the Open Inference Protocol: in JSON, or as bytes after it.

body      {"inputs": [{"name": "amount", "datatype": "FP64", "shape": [2], "parameters": {"binary_data_size": 16}}]}
          ├──────────────── Inference-Header-Content-Length ─────────────────┤├─ the bytes of each tensor, in order ─┤
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.server.features.entity_keys import short_json
from headrace.server.http.responses import BadRequest, parse_json

DTYPES = {
    "BOOL": np.bool_,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}
BYTES_DATATYPE = "BYTES"
_LENGTH_PREFIX = struct.Struct("<I")


class InferenceRequest(NamedTuple):
    """A request for inference: its JSON, and the columns of its inputs."""

    content: dict[str, Any]
    columns: dict[str, list[Any]]


def parse_inference_request(body: bytes, length_header: bytes | None) -> InferenceRequest:
    """Parse a body; `length_header` has the length of its JSON where bytes of tensors follow."""
    length = _json_length(length_header, len(body))
    content = parse_json(body[:length], "an object with inputs")
    inputs = content.get("inputs") if isinstance(content, dict) else None
    if not isinstance(inputs, list) or not all(map(_is_tensor, inputs)):
        raise BadRequest(
            'The body has no inputs. Write {"inputs": [{"name": "amount", "datatype": "FP64", "shape": [1], '
            '"data": [90]}]}.'
        )
    columns, remaining = {}, memoryview(body)[length:]
    for tensor in inputs:
        columns[tensor["name"]], remaining = _read_column(tensor, remaining)
    if len(remaining) or len(columns) < len(inputs):
        raise BadRequest("Two inputs have one name, or bytes are left over after the last. Send each input once.")
    return InferenceRequest(content, columns)


def _json_length(length_header: bytes | None, body_length: int) -> int:
    if length_header is None:
        return body_length
    if not length_header.isdigit() or int(length_header) > body_length:
        raise BadRequest("The header inference-header-content-length is not the length of the JSON in the body.")
    return int(length_header)


def _is_tensor(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("name"), str)
        and isinstance(value.get("datatype"), str)
        and isinstance(value.get("shape"), list)
        and isinstance(value.get("parameters", {}), dict)
    )


def _read_column(tensor: dict[str, Any], remaining: memoryview) -> tuple[list[Any], memoryview]:
    """The values of a tensor of one column, and the bytes that follow it."""
    name, datatype, size = tensor["name"], tensor["datatype"], tensor.get("parameters", {}).get("binary_data_size")
    if datatype not in DTYPES and datatype != BYTES_DATATYPE:
        raise BadRequest(f"Input {name!r} is {datatype[:80]}. Send one of {', '.join(DTYPES)} or {BYTES_DATATYPE}.")
    count = _row_count(name, tensor["shape"])
    if size is None:
        return _values_from_json(name, datatype, tensor.get("data"), count), remaining
    if type(size) is not int or not 0 <= size <= len(remaining):
        raise BadRequest(
            f"Input {name!r} has binary_data_size {short_json(size)}, and {len(remaining)} bytes are left."
        )
    return _values_from_bytes(name, datatype, remaining[:size], count), remaining[size:]


def _row_count(name: str, shape: list[Any]) -> int:
    if (
        any(type(dimension) is not int or dimension < 0 for dimension in shape)
        or not shape
        or shape[1:] not in ([], [1])
    ):
        raise BadRequest(
            f"Input {name!r} has the shape {short_json(shape)}. A column has the shape [rows] or [rows, 1]."
        )
    return int(shape[0])


def _values_from_json(name: str, datatype: str, data: Any, count: int) -> list[Any]:
    values = [part for row in data for part in (row if isinstance(row, list) else [row])] if type(data) is list else []
    if type(data) is not list or len(values) != count:
        raise BadRequest(f"Input {name!r} has {len(values)} values, and its shape says {count}.")
    if datatype.startswith("FP"):
        return [float(value) if type(value) is int else value for value in values]
    return values


def _values_from_bytes(name: str, datatype: str, data: memoryview, count: int) -> list[Any]:
    try:
        values = _decode_texts(data) if datatype == BYTES_DATATYPE else np.frombuffer(data, DTYPES[datatype]).tolist()
    except (ValueError, struct.error) as problem:
        raise BadRequest(f"Input {name!r} is not {datatype}: {problem}.") from problem
    if len(values) != count:
        raise BadRequest(f"Input {name!r} has {len(values)} values, and its shape says {count}.")
    return values


def _decode_texts(data: memoryview) -> list[str]:
    """Texts, each preceded by its length."""
    values, offset = [], 0
    while offset < len(data):
        (length,) = _LENGTH_PREFIX.unpack_from(data, offset)
        offset += _LENGTH_PREFIX.size + length
        if offset > len(data):
            raise ValueError("a text is longer than the bytes there are")
        values.append(bytes(data[offset - length : offset]).decode())
    return values


def encode_tensor(datatype: str, values: Sequence[Any]) -> bytes:
    """Encode a tensor as bytes."""
    if datatype != BYTES_DATATYPE:
        return np.array(values, DTYPES[datatype]).tobytes()
    texts = [(value or "").encode() for value in values]
    return b"".join(part for text in texts for part in (_LENGTH_PREFIX.pack(len(text)), text))
