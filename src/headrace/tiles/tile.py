"""A tile of the changelog: JSON outside, one packed row and a few objects inside."""

import struct
from typing import Any, NamedTuple

import orjson

from headrace.aggregates.json_values import to_changelog_value
from headrace.aggregates.partial import AggregateSlot, Scalar, StoredObject
from headrace.tiles.layout import HopLayout

Entity = tuple[Scalar, ...]

_ENTITY_FIELDS = tuple(f"e{index}" for index in range(1024))


class FeatureTileKey(NamedTuple):
    """The key of a tile: entity, hop, start, and layout version."""

    entity: Entity
    hop_us: int
    start_us: int
    version: str


class FeatureTile(NamedTuple):
    """The partials of one entity over one hop: a row packed with `HopLayout.row_struct`, and objects."""

    row: bytes
    objects: tuple[StoredObject | None, ...] = ()


def decode_key(key: bytes) -> FeatureTileKey:
    """Decode a changelog key.

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
    """Decode a changelog value; a missing field is the identity of its block."""
    values = layout.identities | orjson.loads(value)
    fields = layout.row_field_getter(values)
    try:
        row = layout.row_struct.pack(start_us, *fields)
    except struct.error:  # JSON has no NaN and no infinities: they come as text
        row = layout.row_struct.pack(start_us, *map(_from_json_value, fields))
    if not layout.object_names:
        return FeatureTile(row)
    return FeatureTile(row, tuple([_decode_object(values[name], slot) for name, slot in layout.object_slots]))


def encode_tile(layout: HopLayout, tile: FeatureTile) -> bytes:
    """The changelog value of a tile."""
    names = ("n", "t", "a", *(name for name, _ in layout.fixed_columns))
    fixed = dict(zip(names, layout.row_struct.unpack(tile.row)[1:], strict=True))
    objects = {
        name: slot.partial.to_json(stored, slot.kind)
        for (name, slot), stored in zip(layout.object_slots, tile.objects, strict=True)
        if stored is not None
    }
    return orjson.dumps({name: to_changelog_value(value) for name, value in fixed.items()} | objects)


def _from_json_value(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value


def _decode_object(encoded: Any, slot: AggregateSlot) -> StoredObject | None:
    return None if encoded is None else slot.partial.from_json(encoded, slot.kind)
