"""Tensors of the Open Inference Protocol: in JSON, or in bytes after it.

body      {"inputs": [{"name": "amount", "datatype": "FP64", "shape": [2], "parameters": {"binary_data_size": 16}}]}
          ├──────────────── Inference-Header-Content-Length ─────────────────┤├─ the bytes of each tensor, in order ─┤
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.serve.answers import BadRequest, json_of
from headrace.serve.keys import shown

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
TEXT = "BYTES"
_LENGTH = struct.Struct("<I")


class Asked(NamedTuple):
    """A request for inference: its JSON, and the columns its inputs hold."""

    content: dict[str, Any]
    columns: dict[str, list[Any]]


def read_inputs(body: bytes, json_bytes: bytes | None) -> Asked:
    """What a body asks; `json_bytes` says how long its JSON is where bytes of tensors follow."""
    length = _length(json_bytes, len(body))
    content = json_of(body[:length], "an object with inputs")
    inputs = content.get("inputs") if isinstance(content, dict) else None
    if not isinstance(inputs, list) or not all(map(_is_tensor, inputs)):
        raise BadRequest(
            'The body has no inputs. Write {"inputs": [{"name": "amount", "datatype": "FP64", "shape": [1], '
            '"data": [90]}]}.'
        )
    columns, rest = {}, memoryview(body)[length:]
    for tensor in inputs:
        columns[tensor["name"]], rest = _column(tensor, rest)
    if len(rest) or len(columns) < len(inputs):
        raise BadRequest("Two inputs have one name, or bytes are left over after the last. Send each input once.")
    return Asked(content, columns)


def _length(written: bytes | None, whole: int) -> int:
    if written is None:
        return whole
    if not written.isdigit() or int(written) > whole:
        raise BadRequest("The header inference-header-content-length is not the length of the JSON in the body.")
    return int(written)


def _is_tensor(written: Any) -> bool:
    return (
        isinstance(written, dict)
        and isinstance(written.get("name"), str)
        and isinstance(written.get("datatype"), str)
        and isinstance(written.get("shape"), list)
        and isinstance(written.get("parameters", {}), dict)
    )


def _column(tensor: dict[str, Any], rest: memoryview) -> tuple[list[Any], memoryview]:
    """The values of a tensor of one column, and the bytes after its own."""
    name, datatype, size = tensor["name"], tensor["datatype"], tensor.get("parameters", {}).get("binary_data_size")
    if datatype not in DTYPES and datatype != TEXT:
        raise BadRequest(f"Input {name!r} is {datatype[:80]}. Send one of {', '.join(DTYPES)} or {TEXT}.")
    count = _count(name, tensor["shape"])
    if size is None:
        return _in_json(name, datatype, tensor.get("data"), count), rest
    if type(size) is not int or not 0 <= size <= len(rest):
        raise BadRequest(f"Input {name!r} has binary_data_size {shown(size)}, and {len(rest)} bytes are left.")
    return _in_bytes(name, datatype, rest[:size], count), rest[size:]


def _count(name: str, shape: list[Any]) -> int:
    if any(type(part) is not int or part < 0 for part in shape) or not shape or shape[1:] not in ([], [1]):
        raise BadRequest(f"Input {name!r} has the shape {shown(shape)}. A column has the shape [rows] or [rows, 1].")
    return int(shape[0])


def _in_json(name: str, datatype: str, data: Any, count: int) -> list[Any]:
    values = [part for row in data for part in (row if isinstance(row, list) else [row])] if type(data) is list else []
    if type(data) is not list or len(values) != count:
        raise BadRequest(f"Input {name!r} has {len(values)} values, and its shape says {count}.")
    if datatype.startswith("FP"):
        return [float(value) if type(value) is int else value for value in values]
    return values


def _in_bytes(name: str, datatype: str, data: memoryview, count: int) -> list[Any]:
    try:
        values = _texts(data) if datatype == TEXT else np.frombuffer(data, DTYPES[datatype]).tolist()
    except (ValueError, struct.error) as problem:
        raise BadRequest(f"Input {name!r} is not {datatype}: {problem}.") from problem
    if len(values) != count:
        raise BadRequest(f"Input {name!r} has {len(values)} values, and its shape says {count}.")
    return values


def _texts(data: memoryview) -> list[str]:
    """Texts, each after its length."""
    values, at = [], 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + length
        if at > len(data):
            raise ValueError("a text is longer than the bytes there are")
        values.append(bytes(data[at - length : at]).decode())
    return values


def packed(datatype: str, values: Sequence[Any]) -> bytes:
    """A tensor's bytes."""
    if datatype != TEXT:
        return np.array(values, DTYPES[datatype]).tobytes()
    texts = [(value or "").encode() for value in values]
    return b"".join(part for text in texts for part in (_LENGTH.pack(len(text)), text))
