"""Tiles as fields of an entity: in Redis one hash per entity and one field per tile, elsewhere one row per tile.

field  =  layout version, 4 bytes │ tile start, µs, 8 bytes big-endian
value  =  the packed row, as in memory │ for each object: length, 4 bytes (−1: null), and its bytes
~      =  the time of the hash's last change, by Redis' clock
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson

from headrace.aggregates.partial import AggregateSlot, StoredObject
from headrace.tiles.layout import HopLayout
from headrace.tiles.online.tile_rows import TileRows
from headrace.tiles.tile import Entity, FeatureTile

HashFields = Mapping[bytes, bytes]
CHANGED_AT_FIELD = b"~"
_START = struct.Struct("<q")
_FIELD = struct.Struct(">4sq")
_LENGTH = struct.Struct("<i")
_NULL = _LENGTH.pack(-1)


def hash_key(view_name: str, entity: Entity) -> bytes:
    """The key of an entity's hash.

    >>> hash_key("CardSpend", ("c1", 7))
    b'hr:CardSpend:["c1",7]'
    """
    return hash_prefix(view_name) + orjson.dumps(entity)


def parse_hash_key(view_name: str, key: bytes) -> Entity | None:
    """The entity of a hash key; None if it belongs to no entity of the view.

    >>> parse_hash_key("CardSpend", b'hr:CardSpend:["c1",7]'), parse_hash_key("CardSpend", b"hr:CardSpend:places")
    (('c1', 7), None)
    """
    prefix = hash_prefix(view_name)
    if not key.startswith(prefix):
        return None
    try:
        parsed = orjson.loads(key.removeprefix(prefix))
    except orjson.JSONDecodeError:
        return None
    return tuple(parsed) if isinstance(parsed, list) else None


def hash_prefix(view_name: str) -> bytes:
    """The common prefix of a view's hash keys."""
    return b"hr:%b:" % view_name.encode()


def tile_field(layout: HopLayout, start_us: int) -> bytes:
    """The field name of a tile."""
    return _FIELD.pack(bytes.fromhex(layout.version), start_us)


def pack_lifetimes(layouts: Sequence[HopLayout], slack_us: int) -> bytes:
    """The retention of tiles of each layout, in the format of the apply script."""
    return b"".join(_FIELD.pack(bytes.fromhex(layout.version), layout.retention_us + slack_us) for layout in layouts)


def pack_tile(layout: HopLayout, tile: FeatureTile) -> bytes:
    """The field value of a tile."""
    slots = (slot for _, slot in layout.object_slots)
    return tile.row + b"".join(_pack_object(stored, slot) for stored, slot in zip(tile.objects, slots, strict=True))


def unpack_tile(layout: HopLayout, value: bytes) -> FeatureTile:
    """The tile in a field value."""
    size = layout.row_struct.size
    return FeatureTile(value[:size], tuple(_unpack_objects(layout, value)))


def _pack_object(stored: StoredObject | None, slot: AggregateSlot) -> bytes:
    if stored is None:
        return _NULL
    payload = slot.partial.to_bytes(stored, slot.kind)
    return _LENGTH.pack(len(payload)) + payload


def _unpack_objects(layout: HopLayout, value: bytes) -> Iterator[StoredObject | None]:
    position = layout.row_struct.size
    for _, slot in layout.object_slots:
        (length,) = _LENGTH.unpack_from(value, position)
        position += _LENGTH.size
        yield None if length < 0 else slot.partial.from_bytes(value[position : position + length], slot.kind)
        position += max(0, length)


class TileUnpacker:
    """Converts an entity's hash back to rows."""

    def __init__(self, layouts: Sequence[HopLayout]) -> None:
        self._layouts = layouts
        self._live_layout_count = sum(not layout.part.is_base for layout in layouts)
        self._layout_indexes = {bytes.fromhex(layout.version): index for index, layout in enumerate(layouts)}

    def unpack_rows(self, fields: Mapping[bytes, bytes]) -> list[TileRows | None]:
        """The rows of each hop, None without any; those of history only if there are some.

        Fields of other layouts are ignored.
        """
        values: list[list[bytes]] = [[] for _ in self._layouts]
        for field, value in fields.items():
            layout_index = self._layout_indexes.get(field[:4])
            if layout_index is not None:
                values[layout_index].append(value)
        rows = [
            _to_tile_rows(layout, layout_values) if layout_values else None
            for layout, layout_values in zip(self._layouts, values, strict=True)
        ]
        return rows if any(values[self._live_layout_count :]) else rows[: self._live_layout_count]


def _to_tile_rows(layout: HopLayout, values: list[bytes]) -> TileRows:
    values.sort(key=_START.unpack_from)
    rows = TileRows(layout)
    rows.buffer = bytearray().join(_packed_rows(layout, values))
    if rows.objects is not None:
        rows.objects = [tuple(_unpack_objects(layout, value)) for value in values]
    return rows


def _packed_rows(layout: HopLayout, values: list[bytes]) -> Iterable[bytes]:
    size = layout.row_struct.size
    return [value[:size] for value in values] if layout.object_names else values
