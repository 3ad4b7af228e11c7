"""A tile as the changelog carries it: JSON outside, one packed row and a few objects inside."""

import struct
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from math import isfinite, isnan
from typing import Any, NamedTuple

import orjson

from headrace.declare.streams.schema import Kind
from headrace.tiles.layout import AggregateSlot, HopLayout, Partial

Scalar = bool | int | float | str
Entity = tuple[Scalar, ...]
Occurrence = tuple[int, Scalar, Scalar]  # event time in µs, id, value
StoredObject = str | bytes | Occurrence

_ENTITY_FIELDS = tuple(f"e{index}" for index in range(1024))


class FeatureTileKey(NamedTuple):
    """Which tile: of whom, how long, from when, and by which layout it was folded."""

    entity: Entity
    hop_us: int
    start_us: int
    version: str


class FeatureTile(NamedTuple):
    """The partials of one entity over one hop: a row packed with `HopLayout.row`, and objects."""

    row: bytes
    objects: tuple[StoredObject | None, ...] = ()


def decode_key(key: bytes) -> FeatureTileKey:
    """The tile a changelog key names.

    >>> decode_key(b'{"e0":"c1","h":60000000,"s":0,"v":"bd820751"}').entity
    ('c1',)
    """
    fields = orjson.loads(key)
    entity = tuple([fields[field] for field in _ENTITY_FIELDS[: len(fields) - 3]])
    return FeatureTileKey(entity, fields["h"], fields["s"], fields["v"])


def encode_key(key: FeatureTileKey) -> bytes:
    """The changelog key of a tile."""
    entity = dict(zip(_ENTITY_FIELDS, key.entity, strict=False))
    return orjson.dumps(entity | {"h": key.hop_us, "s": key.start_us, "v": key.version})


def decode_tile(layout: HopLayout, start_us: int, value: bytes) -> FeatureTile:
    """The tile a changelog value holds; an absent field is the identity of its block."""
    values = layout.identities | orjson.loads(value)
    fields = layout.row_field_getter(values)
    try:
        row = layout.row_struct.pack(start_us, *fields)
    except struct.error:  # JSON has no word for NaN and the infinities: they come as text
        row = layout.row_struct.pack(start_us, *map(_from_json_value, fields))
    if not layout.object_names:
        return FeatureTile(row)
    return FeatureTile(row, tuple([_decode_object(values[name], slot) for name, slot in layout.object_slots]))


def encode_tile(layout: HopLayout, tile: FeatureTile) -> bytes:
    """The changelog value of a tile."""
    names = ("n", "t", "a", *(name for name, _ in layout.fixed_columns))
    fixed = dict(zip(names, layout.row_struct.unpack(tile.row)[1:], strict=True))
    objects = {
        name: _encode_object(stored, slot)
        for (name, slot), stored in zip(layout.object_slots, tile.objects, strict=True)
        if stored is not None
    }
    return orjson.dumps({name: _to_json_value(value) for name, value in fixed.items()} | objects)


def _from_json_value(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value


def _to_json_value(value: Any) -> Any:
    """A value as JSON can say it."""
    if not isinstance(value, float) or isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decode_object(encoded: Any, slot: AggregateSlot) -> StoredObject | None:
    return None if encoded is None else _DECODERS[slot.partial](encoded, slot)


def _encode_object(stored: Any, slot: AggregateSlot) -> Any:
    match slot.partial:
        case Partial.DISTINCT | Partial.QUANTILE | Partial.TOP:
            return b2a_base64(stored, newline=False).decode()
        case Partial.FIRST | Partial.LAST:
            return {"t": stored[0], "i": stored[1], "v": _to_json_value(stored[2])}
        case _:
            return stored


def _decode_occurrence(encoded: Any, slot: AggregateSlot) -> Occurrence:
    value = float(encoded["v"]) if slot.kind is Kind.DOUBLE else encoded["v"]
    return encoded["t"], encoded["i"], value


_DECODERS: dict[Partial, Callable[[Any, AggregateSlot], StoredObject]] = {
    Partial.TEXT_MIN: lambda written, _: written,
    Partial.TEXT_MAX: lambda written, _: written,
    Partial.FIRST: _decode_occurrence,
    Partial.LAST: _decode_occurrence,
    Partial.DISTINCT: lambda written, _: a2b_base64(written),
    Partial.QUANTILE: lambda written, _: a2b_base64(written),
    Partial.TOP: lambda written, _: a2b_base64(written),
}
