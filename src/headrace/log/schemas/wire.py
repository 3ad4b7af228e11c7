"""Confluent's wire format: a zero, the schema's id in four bytes, of Protobuf the message's place, then the payload."""

import struct

MAGIC = 0
HEADER = struct.Struct(">bI")


def framed(schema_id: int, payload: bytes) -> bytes:
    """A payload as records have it.

    >>> framed(3, b"x")
    b'\\x00\\x00\\x00\\x00\\x03x'
    """
    return HEADER.pack(MAGIC, schema_id) + payload


def schema_id_of(value: bytes | None) -> int | None:
    """The id of the schema a record was written with; None of one that names none.

    >>> schema_id_of(b"\\x00\\x00\\x00\\x00\\x03x"), schema_id_of(b"{}")
    (3, None)
    """
    if value is None or len(value) < HEADER.size or value[0] != MAGIC:
        return None
    found: int = HEADER.unpack_from(value)[1]
    return found
