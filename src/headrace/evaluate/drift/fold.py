"""Rows folded into drift tiles, a column at a time."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.declare.durations import UNITS_US
from headrace.evaluate.drift.layout import APART, WHOLE, Column, Layout
from headrace.evaluate.drift.tile import Tile, sampled
from headrace.score.reference import Numbers, Segment, Texts, as_scored, text_keys
from headrace.tiles.columns import Values

MINUTE_US = UNITS_US["m"]

Codes = NDArray[np.int64]
Place = tuple[tuple[Segment, ...], int]  # a segment and a minute


def fold(layout: Layout, columns: Mapping[str, Values], times_us: NDArray[np.int64]) -> dict[Place, Tile]:
    """The tiles of some rows, of the whole and of each segment that the layout knows.

    `columns` has every column of the layout and those that segments are made of; times are those of predictions.
    """
    if not len(times_us):
        return {}
    minutes, of_row = np.unique(times_us - times_us % MINUTE_US, return_inverse=True)
    codes = [_codes(column, columns[column.name]) for column in layout.columns]
    found: dict[Place, Tile] = {}
    for segment, rows in _segments(layout, columns, len(times_us)):
        tiles = _tiles(layout, codes, of_row, rows, columns)
        found |= {(segment, int(minutes[place])): tile for place, tile in tiles}
    return found


def _tiles(
    layout: Layout, codes: Sequence[Codes], minute_of: Codes, rows: NDArray[np.intp], columns: Mapping[str, Values]
) -> Iterator[tuple[int, Tile]]:
    """The tiles of some of the rows, by minute."""
    there, minute = np.unique(minute_of[rows], return_inverse=True)
    parts = [
        _counted(minute, code[rows], len(there), column.bins + APART)
        for column, code in zip(layout.columns, codes, strict=True)
    ]
    counts, sizes = np.concatenate(parts, axis=1), np.bincount(minute, minlength=len(there))
    unlisted = {
        column.name: (minute[is_new], text_keys(columns[column.name].data[rows[is_new]]))
        for column, code in zip(layout.columns, codes, strict=True)
        if not column.is_number and (is_new := code[rows] == column.bins - 1).any()
    }
    for place, at in enumerate(there.tolist()):
        yield at, Tile(int(sizes[place]), counts[place], dict(_new(unlisted, place)))


def _new(unlisted: Mapping[str, tuple[Codes, NDArray[Any]]], place: int) -> Iterator[tuple[str, dict[str, int]]]:
    """By column a sample of the texts of one minute that are not listed."""
    for name, (minute, texts) in unlisted.items():
        found = Counter(texts[minute == place].tolist())
        if found:
            yield name, sampled(found)


def _counted(minute: Codes, codes: Codes, minutes: int, width: int) -> Codes:
    return np.bincount(minute * width + codes, minlength=minutes * width).reshape(minutes, width)


def _segments(
    layout: Layout, columns: Mapping[str, Values], rows: int
) -> Iterator[tuple[tuple[Segment, ...], NDArray[np.intp]]]:
    """Each segment and its rows; a value that no card knows is in the whole alone."""
    names = {name for name, _ in chain.from_iterable(layout.segments)}
    texts = {name: np.where(columns[name].valid, text_keys(columns[name].data), "") for name in names}
    for segment in layout.segments:
        if segment == WHOLE:
            yield segment, np.arange(rows)
        elif all((texts[name] == value).any() for name, value in segment):
            yield segment, np.flatnonzero(np.all([texts[name] == value for name, value in segment], axis=0))


def _codes(column: Column, values: Values) -> Codes:
    """Of each row, in which of its column's counts it is one."""
    if isinstance(column.reference, Numbers):
        return _number_codes(np.array(column.reference.cuts), values)
    return _text_codes(column.reference, values)


def _number_codes(cuts: NDArray[np.float64], values: Values) -> Codes:
    numbers = as_scored(np.where(values.valid, values.data, 0))
    codes = np.searchsorted(cuts, numbers).astype(np.int64)
    null, nan, infinite = len(cuts) + 1 + np.arange(APART)
    codes[np.isinf(numbers)] = infinite
    codes[np.isnan(numbers)] = nan
    codes[~values.valid] = null
    return codes


def _text_codes(reference: Texts, values: Values) -> Codes:
    """Each text by its place in the list; "" is null to a model."""
    listed = {text: place for place, text in enumerate(reference.values)} | {"": len(reference.values) + 1}
    texts = text_keys(np.where(values.valid, values.data, "")).tolist()
    return np.array([listed.get(text, len(reference.values)) for text in texts], np.int64)
