"""Describes how a view's shape differs from the one its state was started with.

>>> saved = {"by": [["card", "string"]], "hop 60000 ms": [["float_sum", "amount", "double", "", 0]]}
>>> describe_shape_changes(saved, saved | {"by": [["card", "string"], ["shop", "string"]]})
['`by` changed from card to card, shop']
>>> describe_shape_changes(saved, saved | {"hop 3600000 ms": [["count", "", "", "", 0]]})
['count() every 1h was added']
"""

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.declare.durations import duration_text

SavedViewShape = Mapping[str, Any]
HOP_PREFIX, HOP_SUFFIX = "hop ", " ms"
ABSENT_SETTINGS = {
    "streams": "one alone",
    "salt": "none",
}  # the defaults of shapes without streams and salt
MAX_NAMED_TILES = 3  # more tiles than these are counted, not named


def describe_shape_changes(saved: SavedViewShape, current: SavedViewShape) -> list[str]:
    """What the tiles of a view cannot follow; empty where they follow it all."""
    return [
        *_entity_changes(saved["by"], current["by"]),
        *_setting_changes(saved, current),
        *_tile_changes(saved, current),
    ]


def _entity_changes(saved: list[list[str]], current: list[list[str]]) -> Iterator[str]:
    old, new = (", ".join(name for name, _ in columns) for columns in (saved, current))
    if old != new:
        yield f"`by` changed from {old} to {new}"
    elif saved != current:
        pairs = zip(saved, current, strict=True)
        yield from (f"column {name} changed from {was} to {is_}" for (name, was), (_, is_) in pairs if was != is_)


def _setting_changes(saved: SavedViewShape, current: SavedViewShape) -> Iterator[str]:
    for setting, absent in ABSENT_SETTINGS.items():
        old, new = (_format_value(shape.get(setting, absent)) for shape in (saved, current))
        if old != new:
            yield f"`{setting}` changed from {old} to {new}"


def _tile_changes(saved: SavedViewShape, current: SavedViewShape) -> Iterator[str]:
    """The aggregates that only one of both has, each with its hop."""
    old, new = ([*_describe_tiles(shape)] for shape in (saved, current))
    yield from _describe_change([tile for tile in old if tile not in new], "removed")
    yield from _describe_change([tile for tile in new if tile not in old], "added")


def _describe_tiles(shape: SavedViewShape) -> Iterator[str]:
    for name, slots in shape.items():
        if name.startswith(HOP_PREFIX):
            hop_text = duration_text(int(name.removeprefix(HOP_PREFIX).removesuffix(HOP_SUFFIX)) * 1000)
            yield from (f"{_describe_slot(*slot)} every {hop_text}" for slot in slots)


def _describe_slot(partial: str, column: str, kind: str, where: str, size: int) -> str:
    typed_column = f"{column} {kind}".strip()
    return f"{partial}({typed_column}){f' where {where}' if where else ''}{f' of size {size}' if size else ''}"


def _describe_change(tiles: list[str], verb: str) -> Iterator[str]:
    if tiles:
        remainder = f" and {len(tiles) - MAX_NAMED_TILES} more" if len(tiles) > MAX_NAMED_TILES else ""
        yield f"{', '.join(tiles[:MAX_NAMED_TILES])}{remainder} {'was' if len(tiles) == 1 else 'were'} {verb}"


def _format_value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
