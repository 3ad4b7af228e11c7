"""Tiles as fields of an entity: in Redis one hash an entity and one field a tile, elsewhere one row a tile.

field  =  layout version, 4 bytes │ tile start, µs, 8 bytes big-endian
value  =  the packed row, as in memory │ for each object: length, 4 bytes (−1: null), and its bytes
~      =  when the hash last changed, by Redis' clock
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from headrace.declare.schema import Kind
from headrace.tiles.layout import HopLayout, Partial, Slot
from headrace.tiles.rows import TileRows
from headrace.tiles.tile import Entity, Stored, Tile

Fields = Mapping[bytes, bytes]
CHANGED = b"~"
_START = struct.Struct("<q")
_FIELD = struct.Struct(">4sq")
_LENGTH = struct.Struct("<i")
_NULL = _LENGTH.pack(-1)


def hash_key(view_name: str, entity: Entity) -> bytes:
    """The name of an entity's hash.

    >>> hash_key("CardSpend", ("c1", 7))
    b'hr:CardSpend:["c1",7]'
    """
    return hash_prefix(view_name) + orjson.dumps(entity)


def entity_of(view_name: str, key: bytes) -> Entity | None:
    """Whose hash a key names; None where it is none of a view's.

    >>> entity_of("CardSpend", b'hr:CardSpend:["c1",7]'), entity_of("CardSpend", b"hr:CardSpend:places")
    (('c1', 7), None)
    """
    prefix = hash_prefix(view_name)
    if not key.startswith(prefix):
        return None
    try:
        found = orjson.loads(key.removeprefix(prefix))
    except orjson.JSONDecodeError:
        return None
    return tuple(found) if isinstance(found, list) else None


def hash_prefix(view_name: str) -> bytes:
    """What the names of a view's hashes begin with."""
    return b"hr:%b:" % view_name.encode()


def field_of(layout: HopLayout, start_us: int) -> bytes:
    """The name of a tile's field."""
    return _FIELD.pack(bytes.fromhex(layout.version), start_us)


def pack_keeps(layouts: Sequence[HopLayout], slack_us: int) -> bytes:
    """How long tiles of each layout are kept, as the apply script reads it."""
    return b"".join(_FIELD.pack(bytes.fromhex(layout.version), layout.keep_us + slack_us) for layout in layouts)


def pack(layout: HopLayout, tile: Tile) -> bytes:
    """The value of a tile's field."""
    slots = (slot for _, slot in layout.object_slots)
    return tile.row + b"".join(_packed(stored, slot) for stored, slot in zip(tile.objects, slots, strict=True))


def unpack(layout: HopLayout, value: bytes) -> Tile:
    """The tile of a field's value."""
    size = layout.row.size
    return Tile(value[:size], tuple(_unpacked(layout, value)))


def _packed(stored: Stored | None, slot: Slot) -> bytes:
    if stored is None:
        return _NULL
    payload = _payload(stored, slot)
    return _LENGTH.pack(len(payload)) + payload


def _payload(stored: Any, slot: Slot) -> bytes:
    match slot.partial:
        case Partial.DISTINCT | Partial.QUANTILE | Partial.TOP:
            return bytes(stored)
        case Partial.FIRST | Partial.LAST:
            time_us, event_id, value = stored
            # JSON has no NaN and no infinities: a double is written as Python writes it.
            return orjson.dumps((time_us, event_id, repr(value) if slot.kind is Kind.DOUBLE else value))
        case _:
            return str(stored).encode()


def _unpacked(layout: HopLayout, value: bytes) -> Iterator[Stored | None]:
    at = layout.row.size
    for _, slot in layout.object_slots:
        (length,) = _LENGTH.unpack_from(value, at)
        at += _LENGTH.size
        yield None if length < 0 else _stored(value[at : at + length], slot)
        at += max(0, length)


def _stored(payload: bytes, slot: Slot) -> Stored:
    match slot.partial:
        case Partial.DISTINCT | Partial.QUANTILE | Partial.TOP:
            return payload
        case Partial.FIRST | Partial.LAST:
            time_us, event_id, value = orjson.loads(payload)
            return time_us, event_id, float(value) if slot.kind is Kind.DOUBLE else value
        case _:
            return payload.decode()


class Unpacker:
    """Turns an entity's hash back into rows."""

    def __init__(self, layouts: Sequence[HopLayout]) -> None:
        self._layouts = layouts
        self._live = sum(not layout.part.is_base for layout in layouts)
        self._hops = {bytes.fromhex(layout.version): hop for hop, layout in enumerate(layouts)}

    def rows_by_hop(self, fields: Mapping[bytes, bytes]) -> list[TileRows | None]:
        """The rows of each hop, None where there are none, and those of history only where there is some.

        Fields of other layouts are passed over.
        """
        values: list[list[bytes]] = [[] for _ in self._layouts]
        for field, value in fields.items():
            hop = self._hops.get(field[:4])
            if hop is not None:
                values[hop].append(value)
        rows = [_rows(layout, held) if held else None for layout, held in zip(self._layouts, values, strict=True)]
        return rows if any(values[self._live :]) else rows[: self._live]


def _rows(layout: HopLayout, values: list[bytes]) -> TileRows:
    values.sort(key=_START.unpack_from)
    rows = TileRows(layout)
    rows.rows = bytearray().join(_fixed_parts(layout, values))
    if rows.objects is not None:
        rows.objects = [tuple(_unpacked(layout, value)) for value in values]
    return rows


def _fixed_parts(layout: HopLayout, values: list[bytes]) -> Iterable[bytes]:
    size = layout.row.size
    return [value[:size] for value in values] if layout.objects else values
