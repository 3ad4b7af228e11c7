"""ClickHouse's Native format: a block of columns, each with its name and its type.

columns, rows ─ name, type, values ─ name, type, values ─ …
Nullable: a byte for each row, 1 for null ─ the values, with a placeholder for null

Texts are length-prefixed. Nothing is parsed: a double keeps its bits.
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

STRUCT_FORMATS = {
    "Bool": "?",
    "Int8": "b",
    "Int16": "h",
    "Int32": "i",
    "Int64": "q",
    "UInt8": "B",
    "UInt64": "Q",
    "Float32": "f",
    "Float64": "d",
    "DateTime64": "q",
}


class ClickHouseColumn(NamedTuple):
    """A column of a table; `type` is without Nullable."""

    name: str
    type: str
    is_nullable: bool = False

    @property
    def type_family(self) -> str:
        """Its type without parameters in brackets."""
        return self.type.partition("(")[0]


def encode_block(columns: Sequence[tuple[ClickHouseColumn, Sequence[Any]]]) -> bytes:
    """Encode columns with their values; all have the same number of values."""
    row_count = len(columns[0][1])
    return (
        encode_varint(len(columns))
        + encode_varint(row_count)
        + b"".join(_encode_column(column, values) for column, values in columns)
    )


def encode_varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first.

    >>> encode_varint(5), encode_varint(300)
    (b'\\x05', b'\\xac\\x02')
    """
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _encode_column(column: ClickHouseColumn, values: Sequence[Any]) -> bytes:
    if not column.is_nullable:
        return _encode_string(column.name) + _encode_string(column.type) + _encode_values(column, values)
    null_mask = bytes(value is None for value in values)
    placeholder: Any = "" if column.type == "String" else 0
    filled_values = [placeholder if value is None else value for value in values]
    return (
        _encode_string(column.name)
        + _encode_string(f"Nullable({column.type})")
        + null_mask
        + _encode_values(column, filled_values)
    )


def _encode_values(column: ClickHouseColumn, values: Sequence[Any]) -> bytes:
    if column.type == "String":
        return b"".join(map(_encode_string, values))
    return struct.pack(f"<{len(values)}{STRUCT_FORMATS[column.type_family]}", *values)


def _encode_string(value: str) -> bytes:
    encoded = value.encode()
    return encode_varint(len(encoded)) + encoded
