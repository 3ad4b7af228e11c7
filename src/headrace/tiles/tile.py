"""A tile as the changelog carries it: JSON outside, one packed row and a few objects inside."""

import struct
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from math import isfinite, isnan
from typing import Any, NamedTuple

import orjson

from headrace.declare.schema import Kind
from headrace.tiles.layout import HopLayout, Partial, Slot

Scalar = bool | int | float | str
Entity = tuple[Scalar, ...]
Occurrence = tuple[int, Scalar, Scalar]  # event time in µs, id, value
Stored = str | bytes | Occurrence

_ENTITY_FIELDS = tuple(f"e{index}" for index in range(1024))


class TileKey(NamedTuple):
    """Which tile: of whom, how long, from when, and by which layout it was folded."""

    entity: Entity
    hop_us: int
    start_us: int
    version: str


class Tile(NamedTuple):
    """The partials of one entity over one hop: a row packed with `HopLayout.row`, and objects."""

    row: bytes
    objects: tuple[Stored | None, ...] = ()


def decode_key(key: bytes) -> TileKey:
    """The tile a changelog key names.

    >>> decode_key(b'{"e0":"c1","h":60000000,"s":0,"v":"bd820751"}').entity
    ('c1',)
    """
    found = orjson.loads(key)
    entity = tuple([found[field] for field in _ENTITY_FIELDS[: len(found) - 3]])
    return TileKey(entity, found["h"], found["s"], found["v"])


def encode_key(key: TileKey) -> bytes:
    """The changelog key of a tile."""
    entity = dict(zip(_ENTITY_FIELDS, key.entity, strict=False))
    return orjson.dumps(entity | {"h": key.hop_us, "s": key.start_us, "v": key.version})


def decode_tile(layout: HopLayout, start_us: int, value: bytes) -> Tile:
    """The tile a changelog value holds; an absent field is the identity of its block."""
    found = layout.identities | orjson.loads(value)
    fields = layout.row_fields(found)
    try:
        row = layout.row.pack(start_us, *fields)
    except struct.error:  # JSON has no word for NaN and the infinities: they come as text
        row = layout.row.pack(start_us, *map(_number, fields))
    if not layout.objects:
        return Tile(row)
    return Tile(row, tuple([_decode_object(found[name], slot) for name, slot in layout.object_slots]))


def encode_tile(layout: HopLayout, tile: Tile) -> bytes:
    """The changelog value of a tile."""
    names = ("n", "t", "a", *(name for name, _ in layout.fixed))
    fixed = dict(zip(names, layout.row.unpack(tile.row)[1:], strict=True))
    objects = {
        name: _encode_object(stored, slot)
        for (name, slot), stored in zip(layout.object_slots, tile.objects, strict=True)
        if stored is not None
    }
    return orjson.dumps({name: _written(value) for name, value in fixed.items()} | objects)


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value


def _written(value: Any) -> Any:
    """A value as JSON can say it."""
    if not isinstance(value, float) or isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decode_object(written: Any, slot: Slot) -> Stored | None:
    return None if written is None else _DECODERS[slot.partial](written, slot)


def _encode_object(stored: Any, slot: Slot) -> Any:
    match slot.partial:
        case Partial.DISTINCT | Partial.QUANTILE | Partial.TOP:
            return b2a_base64(stored, newline=False).decode()
        case Partial.FIRST | Partial.LAST:
            return {"t": stored[0], "i": stored[1], "v": _written(stored[2])}
        case _:
            return stored


def _decode_occurrence(written: Any, slot: Slot) -> Occurrence:
    value = float(written["v"]) if slot.kind is Kind.DOUBLE else written["v"]
    return written["t"], written["i"], value


_DECODERS: dict[Partial, Callable[[Any, Slot], Stored]] = {
    Partial.TEXT_MIN: lambda written, _: written,
    Partial.TEXT_MAX: lambda written, _: written,
    Partial.FIRST: _decode_occurrence,
    Partial.LAST: _decode_occurrence,
    Partial.DISTINCT: lambda written, _: a2b_base64(written),
    Partial.QUANTILE: lambda written, _: a2b_base64(written),
    Partial.TOP: lambda written, _: a2b_base64(written),
}
