"""Values and their counts from frequent-items sketches: deterministic sums read from their bytes.

A serialized sketch of datasketches, as Spark writes it; all but the last field little-endian:

    preamble: 8 (byte 3: lg of the map) │ values: int32, 4 more bytes │ n: 8 │ offset: 8 │ counts: int64 each │ values
    a whole number is 8 bytes, a text 4 bytes of length and UTF-8; after them Spark adds how many nulls it saw

While a tile has fewer distinct values than its map holds (three quarters of its size), counts are exact and the offset
is 0. Beyond that, each count may be too small by up to the offset, which is at most 3.5 / size of the number of values.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Any

from headrace.declare.streams.schema import Kind

MAX_TEXT_LENGTH = 128  # in characters: longer values are truncated, so that a tile fits into a record
Value = int | str

_EMPTY_PREAMBLE = 1
_HEAD = struct.Struct("<4B4xi4xqq")
_PREAMBLE, _SERIAL_VERSION, _FAMILY = 4, 1, 10
_LENGTH = struct.Struct("<i")


def map_capacity(lg_map: int) -> int:
    """The number of distinct values that a map of this size holds.

    >>> map_capacity(8)
    192
    """
    return 3 << (lg_map - 2)


def build_frequent_sketch(values: Iterable[Value], lg_map: int) -> bytes:
    """The sketch of values: exact if a map of that size has room for all."""
    value_counts = _sort_by_count(Counter(truncate_value(value) for value in values))
    stored, overflow = value_counts[: map_capacity(lg_map)], value_counts[map_capacity(lg_map) :]
    offset = overflow[0][1] if overflow else 0
    total = sum(count for _, count in value_counts)
    head = _HEAD.pack(_PREAMBLE, _SERIAL_VERSION, _FAMILY, lg_map, len(stored), total, offset)
    counts = struct.pack(f"<{len(stored)}q", *(count for _, count in stored))
    return head + counts + b"".join(_encode_value(value) for value, _ in stored)


def truncate_value(value: Value) -> Value:
    """The counted form of a value: a long text is truncated."""
    return value[:MAX_TEXT_LENGTH] if isinstance(value, str) else int(value)


def most_frequent(sketches: Sequence[bytes], k: int, kind: Kind) -> list[Value]:
    """The k most frequent values of all sketches, in descending order, ties by the smaller value."""
    top_items = nsmallest(k, _sum_counts(sketches, kind).items(), key=_most_frequent_first)
    return [_to_value(value, kind) for value, _ in top_items]


def counts_by_value(sketches: Sequence[bytes], kind: Kind) -> dict[Value, int]:
    """Every value of the sketches with its count, in descending order, ties by the smaller value.

    >>> counts_by_value([build_frequent_sketch(["FR", "DE"], 8), build_frequent_sketch(["FR"], 8)], Kind.STRING)
    {'FR': 2, 'DE': 1}
    """
    ordered = sorted(_sum_counts(sketches, kind).items(), key=_most_frequent_first)
    return {_to_value(value, kind): count for value, count in ordered}


def key_text(value: Value) -> str:
    """A value as the key of a JSON object.

    >>> [key_text(value) for value in ("FR", -7, True)]
    ['FR', '-7', 'true']
    """
    return value if isinstance(value, str) else str(value).lower()


def _sum_counts(sketches: Sequence[bytes], kind: Kind) -> dict[bytes | int, int]:
    counts: dict[bytes | int, int] = {}
    for sketch in sketches:
        for value, count in _read_items(sketch, kind):
            counts[value] = counts.get(value, 0) + count
    return counts


def _most_frequent_first(item: tuple[Any, int]) -> tuple[int, Any]:
    # Text is compared as encoded: the order of UTF-8 is that of its characters.
    return -item[1], item[0]


def _to_value(value: bytes | int, kind: Kind) -> Value:
    if isinstance(value, bytes):
        return value.decode()
    return bool(value) if kind is Kind.BOOLEAN else value


def _sort_by_count(counts: Counter[Value]) -> list[tuple[Value, int]]:
    return sorted(counts.items(), key=_most_frequent_first)


def _read_items(sketch: bytes, kind: Kind) -> Iterable[tuple[bytes | int, int]]:
    if sketch[0] == _EMPTY_PREAMBLE:
        return ()
    item_count: int = _HEAD.unpack_from(sketch)[4]
    counts = struct.unpack_from(f"<{item_count}q", sketch, _HEAD.size)
    position = _HEAD.size + 8 * item_count
    values = (
        _read_texts(sketch, position, item_count)
        if kind is Kind.STRING
        else struct.unpack_from(f"<{item_count}q", sketch, position)
    )
    return zip(values, counts, strict=True)


def _read_texts(sketch: bytes, position: int, item_count: int) -> list[bytes]:
    texts = []
    for _ in range(item_count):
        begin = position + _LENGTH.size
        position = begin + int.from_bytes(sketch[position:begin], "little")
        texts.append(sketch[begin:position])
    return texts


def _encode_value(value: Value) -> bytes:
    if not isinstance(value, str):
        return struct.pack("<q", value)
    text = value.encode()
    return _LENGTH.pack(len(text)) + text
