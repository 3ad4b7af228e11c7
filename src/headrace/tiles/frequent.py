"""Values and their counts, from frequent-items sketches: read from their bytes, added up, the same each time.

A serialized sketch of datasketches, as Spark writes it; all but the last field little-endian:

    preamble: 8 (byte 3: lg of the map) │ values: int32, 4 more bytes │ n: 8 │ offset: 8 │ counts: int64 each │ values
    a whole number is 8 bytes, a text 4 bytes of length and UTF-8; after them Spark adds how many nulls it saw

While a tile has fewer different values than its map holds (three quarters of its size), counts are exact and the offset
is 0. Beyond, each count may be short by the offset, which is at most 3.5 / size of the tile's values: never too great.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Any

from headrace.declare.schema import Kind

LONGEST_TEXT = 128  # characters: a value has as many at most, so that a tile fits into a record
Value = int | str

_EMPTY_PREAMBLE = 1
_HEAD = struct.Struct("<4B4xi4xqq")
_PREAMBLE, _SERIAL_VERSION, _FAMILY = 4, 1, 10
_LENGTH = struct.Struct("<i")


def map_capacity(lg_map: int) -> int:
    """How many different values a map of this size holds.

    >>> map_capacity(8)
    192
    """
    return 3 << (lg_map - 2)


def frequent_sketch_of(values: Iterable[Value], lg_map: int) -> bytes:
    """The sketch of some values: exact, but for what a map of that size has no room for."""
    counted = _ordered(Counter(shortened(value) for value in values))
    held, left = counted[: map_capacity(lg_map)], counted[map_capacity(lg_map) :]
    offset = left[0][1] if left else 0
    total = sum(count for _, count in counted)
    head = _HEAD.pack(_PREAMBLE, _SERIAL_VERSION, _FAMILY, lg_map, len(held), total, offset)
    counts = struct.pack(f"<{len(held)}q", *(count for _, count in held))
    return head + counts + b"".join(_written(value) for value, _ in held)


def shortened(value: Value) -> Value:
    """A value as it is counted: a long text by its beginning."""
    return value[:LONGEST_TEXT] if isinstance(value, str) else int(value)


def most_frequent(sketches: Sequence[bytes], k: int, kind: Kind) -> list[Value]:
    """The k values with most occurrences in all sketches, most frequent first, of equals the smaller."""
    first = nsmallest(k, _added_up(sketches, kind).items(), key=_most_frequent_first)
    return [_read(value, kind) for value, _ in first]


def counts_by_value(sketches: Sequence[bytes], kind: Kind) -> dict[Value, int]:
    """Every value in the sketches with its occurrences, most frequent first, of equals the smaller.

    >>> counts_by_value([frequent_sketch_of(["FR", "DE"], 8), frequent_sketch_of(["FR"], 8)], Kind.STRING)
    {'FR': 2, 'DE': 1}
    """
    ordered = sorted(_added_up(sketches, kind).items(), key=_most_frequent_first)
    return {_read(value, kind): count for value, count in ordered}


def key_text(value: Value) -> str:
    """A value as the key of a JSON object.

    >>> [key_text(value) for value in ("FR", -7, True)]
    ['FR', '-7', 'true']
    """
    return value if isinstance(value, str) else str(value).lower()


def _added_up(sketches: Sequence[bytes], kind: Kind) -> dict[bytes | int, int]:
    counts: dict[bytes | int, int] = {}
    for sketch in sketches:
        for value, count in _items(sketch, kind):
            counts[value] = counts.get(value, 0) + count
    return counts


def _most_frequent_first(item: tuple[Any, int]) -> tuple[int, Any]:
    # Texts are compared as they are written: the order of UTF-8 is that of its characters.
    return -item[1], item[0]


def _read(value: bytes | int, kind: Kind) -> Value:
    if isinstance(value, bytes):
        return value.decode()
    return bool(value) if kind is Kind.BOOLEAN else value


def _ordered(counts: Counter[Value]) -> list[tuple[Value, int]]:
    return sorted(counts.items(), key=_most_frequent_first)


def _items(sketch: bytes, kind: Kind) -> Iterable[tuple[bytes | int, int]]:
    if sketch[0] == _EMPTY_PREAMBLE:
        return ()
    held: int = _HEAD.unpack_from(sketch)[4]
    counts = struct.unpack_from(f"<{held}q", sketch, _HEAD.size)
    at = _HEAD.size + 8 * held
    values = _texts(sketch, at, held) if kind is Kind.STRING else struct.unpack_from(f"<{held}q", sketch, at)
    return zip(values, counts, strict=True)


def _texts(sketch: bytes, at: int, held: int) -> list[bytes]:
    found = []
    for _ in range(held):
        begin = at + _LENGTH.size
        at = begin + int.from_bytes(sketch[at:begin], "little")
        found.append(sketch[begin:at])
    return found


def _written(value: Value) -> bytes:
    if not isinstance(value, str):
        return struct.pack("<q", value)
    text = value.encode()
    return _LENGTH.pack(len(text)) + text
