"""Confluent's wire format: a zero, the schema's id in four bytes, Protobuf's message indexes, then the payload."""

import struct

MAGIC_BYTE = 0
HEADER = struct.Struct(">bI")


def frame_payload(schema_id: int, payload: bytes) -> bytes:
    """A payload as a record value.

    >>> frame_payload(3, b"x")
    b'\\x00\\x00\\x00\\x00\\x03x'
    """
    return HEADER.pack(MAGIC_BYTE, schema_id) + payload


def read_schema_id(value: bytes | None) -> int | None:
    """The schema id of a record; None for one without.

    >>> read_schema_id(b"\\x00\\x00\\x00\\x00\\x03x"), read_schema_id(b"{}")
    (3, None)
    """
    if value is None or len(value) < HEADER.size or value[0] != MAGIC_BYTE:
        return None
    schema_id: int = HEADER.unpack_from(value)[1]
    return schema_id
