"""Tiles as single rows, for stores that sort them: the tiles of a window are one range for each hop.

sort key  =  hop, µs, 8 bytes │ tile start, µs, 8 bytes, those before 1970 first │ layout version, 4 bytes

    hop 10 s  ├─┼─┼─┼─┼─(═╪═╪═╪═╪═╪═┼      only rows after the start of the window are read,
    hop 1 m   ├─────┼─(═══╪═════╪═══┼      however many older ones still exist
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from headrace.aggregates.partial import INT64_MAX, INT64_MIN
from headrace.online_store.tile_packing import HashFields

_SORT_KEY = struct.Struct(">QQ4s")
_FIELD = struct.Struct(">4sq")
_PARTITION = struct.Struct(">i")


class SortedTileRow(NamedTuple):
    """One tile: its key, its number of events, and how long it lives without a change; 0 is forever."""

    key: bytes
    sort_key: bytes
    start_us: int
    event_count: int
    value: bytes
    ttl_s: int


class HopRange(NamedTuple):
    """The tiles of one hop that start after a time."""

    hop_us: int
    after_us: int

    @property
    def key_bounds(self) -> tuple[bytes, bytes]:
        """The smallest and the greatest possible sort key."""
        return sort_key(self.hop_us, self.after_us + 1, bytes(4)), sort_key(self.hop_us, INT64_MAX, b"\xff" * 4)


def sort_key(hop_us: int, start_us: int, version: bytes) -> bytes:
    """The sort key of a tile's row.

    >>> sort_key(60, -60, b"v001") < sort_key(60, 0, b"v001") < sort_key(120, -120, b"v001")
    True
    """
    return _SORT_KEY.pack(hop_us, start_us - INT64_MIN, version)


def to_hash_fields(rows: Iterable[tuple[bytes, bytes]]) -> HashFields:
    """Sort keys and values as the fields of an entity."""
    return {_to_field_name(key): value for key, value in rows}


def offsets_key(group: str, topic: str) -> bytes:
    """The key of a group's offsets in a topic."""
    return f"hr:places:{group}:{topic}".encode()


def pack_partition(number: int) -> bytes:
    """A partition number as a sort key."""
    return _PARTITION.pack(number)


def unpack_partition(packed: bytes) -> int:
    number: int = _PARTITION.unpack(packed)[0]
    return number


def _to_field_name(key: bytes) -> bytes:
    _, shifted_start, version = _SORT_KEY.unpack(key)
    return _FIELD.pack(version, shifted_start + INT64_MIN)
