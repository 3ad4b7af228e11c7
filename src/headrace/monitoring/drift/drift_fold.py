"""Folds rows into drift tiles, a column at a time."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.aggregates.value_columns import ValueColumn
from headrace.declare.durations import UNITS_US
from headrace.models.versions.reference_distribution import Numbers, Segment, Texts, round_to_float32, text_keys
from headrace.monitoring.drift.drift_layout import ALL_ROWS, SPECIAL_BINS, DriftColumn, DriftLayout
from headrace.monitoring.drift.drift_tile import DriftTile, sample_texts

MINUTE_US = UNITS_US["m"]

Codes = NDArray[np.int64]
SegmentMinute = tuple[tuple[Segment, ...], int]  # a segment and a minute


def fold_rows(
    layout: DriftLayout, columns: Mapping[str, ValueColumn], times_us: NDArray[np.int64]
) -> dict[SegmentMinute, DriftTile]:
    """The tiles of some rows, of all rows and of each segment of the layout.

    `columns` has every column of the layout and the segment columns; times are those of predictions.
    """
    if not len(times_us):
        return {}
    minutes, minute_codes = np.unique(times_us - times_us % MINUTE_US, return_inverse=True)
    codes = [_encode_column(column, columns[column.name]) for column in layout.columns]
    segment_tiles: dict[SegmentMinute, DriftTile] = {}
    for segment, rows in _segment_rows(layout, columns, len(times_us)):
        tiles = _fold_segment(layout, codes, minute_codes, rows, columns)
        segment_tiles |= {(segment, int(minutes[minute_index])): tile for minute_index, tile in tiles}
    return segment_tiles


def _fold_segment(
    layout: DriftLayout,
    codes: Sequence[Codes],
    minute_codes: Codes,
    rows: NDArray[np.intp],
    columns: Mapping[str, ValueColumn],
) -> Iterator[tuple[int, DriftTile]]:
    """The tiles of a segment's rows, by minute."""
    minute_indices, row_minutes = np.unique(minute_codes[rows], return_inverse=True)
    column_counts = [
        _count_codes(row_minutes, code[rows], len(minute_indices), column.bin_count + SPECIAL_BINS)
        for column, code in zip(layout.columns, codes, strict=True)
    ]
    counts, row_counts = np.concatenate(column_counts, axis=1), np.bincount(row_minutes, minlength=len(minute_indices))
    unlisted = {
        column.name: (row_minutes[is_unlisted], text_keys(columns[column.name].data[rows[is_unlisted]]))
        for column, code in zip(layout.columns, codes, strict=True)
        if not column.is_numeric and (is_unlisted := code[rows] == column.bin_count - 1).any()
    }
    for tile_index, minute_index in enumerate(minute_indices.tolist()):
        yield (
            minute_index,
            DriftTile(int(row_counts[tile_index]), counts[tile_index], dict(_unlisted_samples(unlisted, tile_index))),
        )


def _unlisted_samples(
    unlisted: Mapping[str, tuple[Codes, NDArray[Any]]], tile_index: int
) -> Iterator[tuple[str, dict[str, int]]]:
    """By column a sample of one minute's unlisted texts."""
    for name, (row_minutes, texts) in unlisted.items():
        text_counts = Counter(texts[row_minutes == tile_index].tolist())
        if text_counts:
            yield name, sample_texts(text_counts)


def _count_codes(row_minutes: Codes, codes: Codes, minute_count: int, width: int) -> Codes:
    return np.bincount(row_minutes * width + codes, minlength=minute_count * width).reshape(minute_count, width)


def _segment_rows(
    layout: DriftLayout, columns: Mapping[str, ValueColumn], rows: int
) -> Iterator[tuple[tuple[Segment, ...], NDArray[np.intp]]]:
    """Each segment and its rows; a value that the card does not list counts only in the whole."""
    names = {name for name, _ in chain.from_iterable(layout.segments)}
    texts = {name: np.where(columns[name].valid, text_keys(columns[name].data), "") for name in names}
    for segment in layout.segments:
        if segment == ALL_ROWS:
            yield segment, np.arange(rows)
        elif all((texts[name] == value).any() for name, value in segment):
            yield segment, np.flatnonzero(np.all([texts[name] == value for name, value in segment], axis=0))


def _encode_column(column: DriftColumn, values: ValueColumn) -> Codes:
    """For each row, the index of its count in a column."""
    if isinstance(column.reference, Numbers):
        return _encode_numbers(np.array(column.reference.cuts), values)
    return _encode_texts(column.reference, values)


def _encode_numbers(cuts: NDArray[np.float64], values: ValueColumn) -> Codes:
    numbers = round_to_float32(np.where(values.valid, values.data, 0))
    codes = np.searchsorted(cuts, numbers).astype(np.int64)
    null, nan, infinite = len(cuts) + 1 + np.arange(SPECIAL_BINS)
    codes[np.isinf(numbers)] = infinite
    codes[np.isnan(numbers)] = nan
    codes[~values.valid] = null
    return codes


def _encode_texts(reference: Texts, values: ValueColumn) -> Codes:
    """Each text by its index in the list; "" is null to a model."""
    code_by_text = {text: index for index, text in enumerate(reference.values)} | {"": len(reference.values) + 1}
    texts = text_keys(np.where(values.valid, values.data, "")).tolist()
    return np.array([code_by_text.get(text, len(reference.values)) for text in texts], np.int64)
