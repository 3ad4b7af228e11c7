"""What has changed between the shape a view was begun with and the one it has now, in the words of its declaration.

>>> begun = {"by": [["card", "string"]], "hop 60000 ms": [["float_sum", "amount", "double", "", 0]]}
>>> describe_shape_changes(begun, begun | {"by": [["card", "string"], ["shop", "string"]]})
['`by` changed from card to card, shop']
>>> describe_shape_changes(begun, begun | {"hop 3600000 ms": [["count", "", "", "", 0]]})
['count() every 1h was added']
"""

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.declare.durations import duration_text

Shape = Mapping[str, Any]
HOP, UNIT = "hop ", " ms"
ABSENT = {"streams": "one alone", "salt": "none"}  # what a shape that does not name them says of streams and salt
MOST = 3  # more tiles than these are counted, not named


def describe_shape_changes(begun: Shape, now: Shape) -> list[str]:
    """What the tiles of a view cannot follow; empty where they follow it all."""
    return [*_of_entity(begun["by"], now["by"]), *_of_settings(begun, now), *_of_tiles(begun, now)]


def _of_entity(begun: list[list[str]], now: list[list[str]]) -> Iterator[str]:
    was, is_ = (", ".join(name for name, _ in columns) for columns in (begun, now))
    if was != is_:
        yield f"`by` changed from {was} to {is_}"
    elif begun != now:
        pairs = zip(begun, now, strict=True)
        yield from (f"column {name} changed from {was} to {is_}" for (name, was), (_, is_) in pairs if was != is_)


def _of_settings(begun: Shape, now: Shape) -> Iterator[str]:
    for setting, absent in ABSENT.items():
        was, is_ = (_text(shape.get(setting, absent)) for shape in (begun, now))
        if was != is_:
            yield f"`{setting}` changed from {was} to {is_}"


def _of_tiles(begun: Shape, now: Shape) -> Iterator[str]:
    """The aggregates that are kept in one of both alone, each with the length of its tiles."""
    was, is_ = ([*_tiles(shape)] for shape in (begun, now))
    yield from _named([tile for tile in was if tile not in is_], "removed")
    yield from _named([tile for tile in is_ if tile not in was], "added")


def _tiles(shape: Shape) -> Iterator[str]:
    for name, slots in shape.items():
        if name.startswith(HOP):
            every = duration_text(int(name.removeprefix(HOP).removesuffix(UNIT)) * 1000)
            yield from (f"{_slot(*slot)} every {every}" for slot in slots)


def _slot(partial: str, column: str, kind: str, where: str, size: int) -> str:
    of = f"{column} {kind}".strip()
    return f"{partial}({of}){f' where {where}' if where else ''}{f' of size {size}' if size else ''}"


def _named(tiles: list[str], done: str) -> Iterator[str]:
    if tiles:
        more = f" and {len(tiles) - MOST} more" if len(tiles) > MOST else ""
        yield f"{', '.join(tiles[:MOST])}{more} {'was' if len(tiles) == 1 else 'were'} {done}"


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
