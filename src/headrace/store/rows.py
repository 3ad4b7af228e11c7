"""Tiles as rows of their own, for stores that sort them: what a window holds is one span for each hop.

sort key  =  hop, µs, 8 bytes │ tile start, µs, 8 bytes, those before 1970 first │ layout version, 4 bytes

    hop 10 s  ├─┼─┼─┼─┼─(═╪═╪═╪═╪═╪═┼      only what comes after the window's beginning is read,
    hop 1 m   ├─────┼─(═══╪═════╪═══┼      however much older is still there
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from headrace.store.packing import Fields
from headrace.tiles.layout import INT64_MAX, INT64_MIN

_SORTED = struct.Struct(">QQ4s")
_FIELD = struct.Struct(">4sq")
_NUMBER = struct.Struct(">i")


class Row(NamedTuple):
    """One tile: which it is, how many events it has, and how long it is kept without a change; 0 is for ever."""

    key: bytes
    sort_key: bytes
    start_us: int
    n: int
    value: bytes
    keep_s: int


class Span(NamedTuple):
    """The tiles of one hop that start after a time."""

    hop_us: int
    after_us: int

    @property
    def bounds(self) -> tuple[bytes, bytes]:
        """The first and the last sort key there may be."""
        return sort_key(self.hop_us, self.after_us + 1, bytes(4)), sort_key(self.hop_us, INT64_MAX, b"\xff" * 4)


def sort_key(hop_us: int, start_us: int, version: bytes) -> bytes:
    """By what the rows of an entity are sorted.

    >>> sort_key(60, -60, b"v001") < sort_key(60, 0, b"v001") < sort_key(120, -120, b"v001")
    True
    """
    return _SORTED.pack(hop_us, start_us - INT64_MIN, version)


def fields_of(rows: Iterable[tuple[bytes, bytes]]) -> Fields:
    """Sort keys and values as the fields of an entity."""
    return {_field_of(key): value for key, value in rows}


def places_key(group: str, topic: str) -> bytes:
    """Under what the places of a group in a topic are kept."""
    return f"hr:places:{group}:{topic}".encode()


def pack_number(number: int) -> bytes:
    """A partition as a sort key."""
    return _NUMBER.pack(number)


def unpack_number(packed: bytes) -> int:
    number: int = _NUMBER.unpack(packed)[0]
    return number


def _field_of(key: bytes) -> bytes:
    _, start, version = _SORTED.unpack(key)
    return _FIELD.pack(version, start + INT64_MIN)
