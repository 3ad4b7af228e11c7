"""ClickHouse's Native format: a block of columns, each with its name and its type, so that none is taken for another.

columns, rows ─ name, type, values ─ name, type, values ─ …
Nullable: a byte for each row, 1 where it is null ─ the values, with anything where it is null

Texts have their length before them. Nothing is parsed: a double arrives with the bits it had.
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

PACKED = {
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


class Held(NamedTuple):
    """A column as a table holds it; `type` is said without Nullable."""

    name: str
    type: str
    is_nullable: bool = False

    @property
    def family(self) -> str:
        """Its type without what stands in brackets."""
        return self.type.partition("(")[0]


def block(columns: Sequence[tuple[Held, Sequence[Any]]]) -> bytes:
    """Columns with their values, of which each has as many."""
    rows = len(columns[0][1])
    return varint(len(columns)) + varint(rows) + b"".join(_column(held, values) for held, values in columns)


def varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first.

    >>> varint(5), varint(300)
    (b'\\x05', b'\\xac\\x02')
    """
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def _column(held: Held, values: Sequence[Any]) -> bytes:
    if not held.is_nullable:
        return _text(held.name) + _text(held.type) + _values(held, values)
    nulls = bytes(value is None for value in values)
    anything: Any = "" if held.type == "String" else 0
    filled = [anything if value is None else value for value in values]
    return _text(held.name) + _text(f"Nullable({held.type})") + nulls + _values(held, filled)


def _values(held: Held, values: Sequence[Any]) -> bytes:
    if held.type == "String":
        return b"".join(map(_text, values))
    return struct.pack(f"<{len(values)}{PACKED[held.family]}", *values)


def _text(value: str) -> bytes:
    written = value.encode()
    return varint(len(written)) + written
